// The TensorFlow kernels of the operation IosStageLatency, which call the
// engine's Profiler.
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cc/engine/host/shared_objects.h"
#include "cc/engine/profiler.h"
#include "cc/tensorflow/ops/engine_device.h"
#include "cc/tensorflow/ops/latency_api.h"
#include "cc/tensorflow/status_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace ios::tf {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// The profiler of a block on a device. It is created on first use, and again if
// it was released since.
class SharedProfiler {
 public:
  SharedProfiler(std::string program, std::string device,
                 DeviceAllocator* allocator)
      : program_(std::move(program)),
        device_(std::move(device)),
        allocator_(allocator) {}

  // Returns the profiler that all existing kernels for a block share. (Several
  // kernels measure one block, with different settings.) `program` is the
  // block's JSON.
  static std::shared_ptr<SharedProfiler> Of(const std::string& program,
                                            const std::string& device,
                                            DeviceAllocator* allocator) {
    const Key key(program, device, allocator);
    if (auto known = Known().Find(key)) return known;
    return Known().Put(
        key, std::make_shared<SharedProfiler>(program, device, allocator));
  }

  static void ReleaseAll() {
    for (const auto& shared : Known().All()) shared->Release();
  }

  StatusOr<std::shared_ptr<Profiler>> Get() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!profiler_) {
      IOS_ASSIGN_OR_RETURN(const Block block, BlockFromJson(program_));
      IOS_ASSIGN_OR_RETURN(std::unique_ptr<Profiler> created,
                           Profiler::Create(block, device_, allocator_));
      profiler_ = std::move(created);
    }
    return profiler_;
  }

 private:
  using Key = std::tuple<std::string, std::string, DeviceAllocator*>;
  static SharedObjects<Key, SharedProfiler>& Known() {
    static auto* const known = new SharedObjects<Key, SharedProfiler>;
    return *known;
  }

  void Release() {
    std::lock_guard<std::mutex> lock(mutex_);
    profiler_.reset();
  }

  const std::string program_, device_;
  DeviceAllocator* const allocator_;
  std::mutex mutex_;
  std::shared_ptr<Profiler> profiler_;
};

class IosStageLatencyOp : public OpKernel {
 public:
  explicit IosStageLatencyOp(OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context,
                   CatchExceptionsAbsl([&] { return Create(context); }));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context,
                   CatchExceptionsAbsl([&] { return Measure(context); }));
  }

 private:
  absl::Status Create(OpKernelConstruction* context) {
    std::string json;
    TF_RETURN_IF_ERROR(context->GetAttr("program", &json));
    TF_RETURN_IF_ERROR(context->GetAttr("warmup", &measurement_.warmup));
    TF_RETURN_IF_ERROR(context->GetAttr("number", &measurement_.number));
    TF_RETURN_IF_ERROR(context->GetAttr("repeat", &measurement_.repeat));
    TF_RETURN_IF_ERROR(context->GetAttr("lanes", &measurement_.lanes));
    const absl::StatusOr<std::string> device = EngineDevice(context);
    TF_RETURN_IF_ERROR(device.status());
    profiler_ = SharedProfiler::Of(json, *device, EngineAllocator(context));
    return ToAbsl(profiler_->Get().status());
  }

  absl::Status Measure(OpKernelContext* context) {
    const Tensor& text = context->input(0);
    if (!tensorflow::TensorShapeUtils::IsScalar(text.shape())) {
      return absl::InvalidArgumentError(
          "the input 'schedule' must be one string");
    }
    const StatusOr<Schedule> schedule =
        ScheduleFromJson(text.scalar<tensorflow::tstring>()());
    TF_RETURN_IF_ERROR(ToAbsl(schedule.status()));
    const StatusOr<std::shared_ptr<Profiler>> profiler = profiler_->Get();
    TF_RETURN_IF_ERROR(ToAbsl(profiler.status()));
    const StatusOr<std::vector<Sample>> samples =
        (*profiler)->Measure(*schedule, measurement_);
    TF_RETURN_IF_ERROR(ToAbsl(samples.status()));
    Tensor *latencies = nullptr, *disturbed = nullptr;
    const int64_t repeat = samples->size();
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, TensorShape({repeat}), &latencies));
    TF_RETURN_IF_ERROR(
        context->allocate_output(1, TensorShape({repeat}), &disturbed));
    for (int64_t i = 0; i < repeat; ++i) {
      latencies->flat<double>()(i) = (*samples)[i].ms;
      disturbed->flat<bool>()(i) = (*samples)[i].disturbed;
    }
    return absl::OkStatus();
  }

  Measurement measurement_;
  std::shared_ptr<SharedProfiler> profiler_;
};

REGISTER_KERNEL_BUILDER(Name("IosStageLatency").Device(tensorflow::DEVICE_CPU),
                        IosStageLatencyOp);
// The inputs and outputs of the kernel for GPUs are in host memory, because
// they are small and the host uses them.
REGISTER_KERNEL_BUILDER(Name("IosStageLatency")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("schedule")
                            .HostMemory("latencies")
                            .HostMemory("disturbed"),
                        IosStageLatencyOp);

}  // namespace
}  // namespace ios::tf

extern "C" void ios_tf_release_profilers() {
  ios::tf::SharedProfiler::ReleaseAll();
}

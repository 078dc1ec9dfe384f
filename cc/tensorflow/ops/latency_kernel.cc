// Kernels of IosStageLatency, over the engine's Profiler.
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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

// The profiler of a block on a device. It is created on first use, and again
// after a release.
class SharedProfiler {
 public:
  // Returns the profiler that all live kernels of a block share. These kernels
  // measure the same block in different ways. `program` is the block's JSON.
  static std::shared_ptr<SharedProfiler> Of(const std::string& program,
                                            const std::string& device,
                                            DeviceAllocator* allocator) {
    Registry& all = Known();
    std::lock_guard<std::mutex> lock(all.mutex);
    std::weak_ptr<SharedProfiler>& known =
        all.profilers[{program, device, allocator}];
    std::shared_ptr<SharedProfiler> shared = known.lock();
    if (!shared) {
      shared = std::make_shared<SharedProfiler>();
      shared->program_ = program;
      shared->device_ = device;
      shared->allocator_ = allocator;
      known = shared;
    }
    return shared;
  }

  static void ReleaseAll() {
    Registry& all = Known();
    std::lock_guard<std::mutex> lock(all.mutex);
    for (auto it = all.profilers.begin(); it != all.profilers.end();) {
      const std::shared_ptr<SharedProfiler> shared = it->second.lock();
      if (shared) shared->Release();
      it = shared ? std::next(it) : all.profilers.erase(it);
    }
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
  struct Registry {
    std::mutex mutex;
    std::map<Key, std::weak_ptr<SharedProfiler>> profilers;
  };
  static Registry& Known() {
    static auto* const registry = new Registry;
    return *registry;
  }

  void Release() {
    std::lock_guard<std::mutex> lock(mutex_);
    profiler_.reset();
  }

  std::string program_, device_;
  DeviceAllocator* allocator_ = nullptr;
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
      return absl::InvalidArgumentError("schedule must be one string");
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
// The host reads and writes these small tensors.
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

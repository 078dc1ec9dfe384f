// Kernels of IosStageLatency, over the engine's Profiler.
#include <algorithm>
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

// The profiler of `block`, whose JSON is `program`; one for all kernels that
// are alive: they differ in how they measure, not in what.
StatusOr<std::shared_ptr<Profiler>> SharedProfiler(const std::string& program,
                                                   const Block& block,
                                                   const std::string& device,
                                                   DeviceAllocator* allocator) {
  static std::mutex mutex;
  using Key = std::tuple<std::string, std::string, DeviceAllocator*>;
  static auto* profilers = new std::map<Key, std::weak_ptr<Profiler>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Profiler>& known = (*profilers)[{program, device, allocator}];
  std::shared_ptr<Profiler> profiler = known.lock();
  if (!profiler) {
    IOS_ASSIGN_OR_RETURN(std::unique_ptr<Profiler> created,
                         Profiler::Create(block, device, allocator));
    profiler = std::move(created);
    known = profiler;
  }
  return profiler;
}

class IosStageLatencyOp : public OpKernel {
 public:
  explicit IosStageLatencyOp(OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, GuardedAbsl([&] { return Create(context); }));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, GuardedAbsl([&] { return Measure(context); }));
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
    StatusOr<Block> block = BlockFromJson(json);
    TF_RETURN_IF_ERROR(ToAbsl(block.status()));
    StatusOr<std::shared_ptr<Profiler>> profiler =
        SharedProfiler(json, *block, *device, EngineAllocator(context));
    TF_RETURN_IF_ERROR(ToAbsl(profiler.status()));
    profiler_ = std::move(*profiler);
    return absl::OkStatus();
  }

  absl::Status Measure(OpKernelContext* context) {
    const Tensor& text = context->input(0);
    if (!tensorflow::TensorShapeUtils::IsScalar(text.shape())) {
      return absl::InvalidArgumentError("schedule must be one string");
    }
    const StatusOr<Schedule> schedule =
        ScheduleFromJson(text.scalar<tensorflow::tstring>()());
    TF_RETURN_IF_ERROR(ToAbsl(schedule.status()));
    StatusOr<std::vector<double>> latencies =
        profiler_->Measure(*schedule, measurement_);
    TF_RETURN_IF_ERROR(ToAbsl(latencies.status()));
    Tensor* output = nullptr;
    const int64_t repeat = latencies->size();
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, TensorShape({repeat}), &output));
    std::copy(latencies->begin(), latencies->end(),
              output->flat<double>().data());
    return absl::OkStatus();
  }

  Measurement measurement_;
  std::shared_ptr<Profiler> profiler_;
};

REGISTER_KERNEL_BUILDER(Name("IosStageLatency").Device(tensorflow::DEVICE_CPU),
                        IosStageLatencyOp);
// Small numbers that the host reads and writes.
REGISTER_KERNEL_BUILDER(Name("IosStageLatency")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("schedule")
                            .HostMemory("latencies"),
                        IosStageLatencyOp);

}  // namespace
}  // namespace ios::tf

// Kernels of IosStageLatency, over the engine's Profiler.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
    num_operators_ = block->operators.size();
    StatusOr<std::shared_ptr<Profiler>> profiler =
        SharedProfiler(json, *block, *device, EngineAllocator(context));
    TF_RETURN_IF_ERROR(ToAbsl(profiler.status()));
    profiler_ = std::move(*profiler);
    return absl::OkStatus();
  }

  absl::Status Measure(OpKernelContext* context) {
    std::vector<Stage> stages;
    TF_RETURN_IF_ERROR(ReadStages(context, &stages));
    StatusOr<std::vector<double>> latencies =
        profiler_->Measure(stages, measurement_);
    TF_RETURN_IF_ERROR(ToAbsl(latencies.status()));
    Tensor* output = nullptr;
    const int64_t repeat = latencies->size();
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, TensorShape({repeat}), &output));
    std::copy(latencies->begin(), latencies->end(),
              output->flat<double>().data());
    return absl::OkStatus();
  }

  absl::Status ReadStages(OpKernelContext* context,
                          std::vector<Stage>* stages) const {
    const Tensor* in[4];
    for (int k = 0; k < 4; ++k) {
      in[k] = &context->input(k);
      if (in[k]->dims() != 1 ||
          (k < 3 && in[k]->NumElements() != in[0]->NumElements())) {
        return absl::InvalidArgumentError(
            "operators, stages and groups must be vectors of one length, "
            "strategies a vector");
      }
    }
    const auto operators = in[0]->vec<int32_t>(), stage = in[1]->vec<int32_t>(),
               group = in[2]->vec<int32_t>(), strategy = in[3]->vec<int32_t>();
    for (int64_t s = 0; s < strategy.size(); ++s) {
      if (strategy(s) < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("strategy ", strategy(s), " is negative"));
      }
      Stage next;
      if (strategy(s) == 1) next.strategy = Strategy::kMerge;
      if (strategy(s) > 1) {
        next.strategy = Strategy::kSplit;
        next.micro_batches = strategy(s);
      }
      stages->push_back(std::move(next));
    }
    for (int64_t i = 0; i < operators.size(); ++i) {
      if (operators(i) < 0 || operators(i) >= num_operators_ || stage(i) < 0 ||
          stage(i) >= strategy.size() || group(i) < 0 ||
          group(i) >= num_operators_) {
        return absl::InvalidArgumentError(
            absl::StrCat("operator ", operators(i), ", stage ", stage(i),
                         " or group ", group(i), " is out of range"));
      }
      auto& groups = (*stages)[stage(i)].groups;
      if (group(i) >= static_cast<int>(groups.size())) {
        groups.resize(group(i) + 1);
      }
      groups[group(i)].push_back(operators(i));
    }
    for (const Stage& s : *stages) {
      for (const auto& members : s.groups) {
        if (members.empty()) {
          return absl::InvalidArgumentError(
              "groups of a stage must be numbered from 0, without gaps");
        }
      }
      if (s.groups.empty()) {
        return absl::InvalidArgumentError("a stage has no operators");
      }
    }
    return absl::OkStatus();
  }

  int num_operators_ = 0;
  Measurement measurement_;
  std::shared_ptr<Profiler> profiler_;
};

REGISTER_KERNEL_BUILDER(Name("IosStageLatency").Device(tensorflow::DEVICE_CPU),
                        IosStageLatencyOp);
// Small numbers that the host reads and writes.
REGISTER_KERNEL_BUILDER(Name("IosStageLatency")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("operators")
                            .HostMemory("stages")
                            .HostMemory("groups")
                            .HostMemory("strategies")
                            .HostMemory("latencies"),
                        IosStageLatencyOp);

}  // namespace
}  // namespace ios::tf

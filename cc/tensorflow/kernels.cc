// CPU kernels of IosRegion and IosStageLatency, over the engine's Program and
// Profiler.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/engine/program.h"
#include "cc/tensorflow/program_json.h"
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

Shape ToShape(const TensorShape& shape) {
  Shape result;
  for (int d = 0; d < shape.dims(); ++d) result.push_back(shape.dim_size(d));
  return result;
}

// The attribute's tensors, as the operators' weights. They point into `tensors`.
StatusOr<Weights> SplitWeights(const Block& block,
                               const std::vector<Tensor>& tensors) {
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
  Weights weights;
  size_t next = 0;
  for (const Operator& op : block.operators) {
    weights.emplace_back();
    for (Shape& shape :
         WeightShapes(op, ShapeOf(block, shapes, op.inputs[0]))) {
      if (next >= tensors.size() ||
          tensors[next].dtype() != tensorflow::DT_FLOAT ||
          tensors[next].NumElements() != NumElements(shape)) {
        return InvalidArgument(absl::StrCat(
            "weight ", next, " does not fit operator '", op.name, "'"));
      }
      weights.back().push_back(
          {tensors[next++].flat<float>().data(), std::move(shape)});
    }
  }
  if (next != tensors.size()) {
    return InvalidArgument(absl::StrCat("has ", tensors.size(),
                                        " weights, the program takes ", next));
  }
  return weights;
}

class IosRegionOp : public OpKernel {
 public:
  explicit IosRegionOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string json, device;
    std::vector<Tensor> tensors;
    OP_REQUIRES_OK(context, context->GetAttr("program", &json));
    OP_REQUIRES_OK(context, context->GetAttr("device", &device));
    OP_REQUIRES_OK(context, context->GetAttr("weights", &tensors));
    StatusOr<RegionProgram> program = RegionProgramFromJson(json);
    OP_REQUIRES_OK(context, ToAbsl(program.status()));
    OP_REQUIRES(context,
                static_cast<int>(program->block.inputs.size()) ==
                        context->num_inputs() &&
                    static_cast<int>(program->block.outputs.size()) ==
                        context->num_outputs(),
                absl::InvalidArgumentError(
                    "the program has another number of inputs or outputs"));
    StatusOr<Weights> weights = SplitWeights(program->block, tensors);
    OP_REQUIRES_OK(context, ToAbsl(weights.status()));
    StatusOr<std::unique_ptr<Program>> created = Program::Create(
        program->block, program->schedule, *weights, device);
    OP_REQUIRES_OK(context, ToAbsl(created.status()));
    program_ = std::move(*created);
  }

  void Compute(OpKernelContext* context) override {
    std::vector<TensorArray> inputs;
    std::vector<Shape> shapes;
    for (int k = 0; k < context->num_inputs(); ++k) {
      const Tensor& input = context->input(k);
      shapes.push_back(ToShape(input.shape()));
      inputs.push_back({input.flat<float>().data(), shapes.back()});
    }
    StatusOr<std::vector<Shape>> results = program_->OutputShapes(shapes);
    OP_REQUIRES_OK(context, ToAbsl(results.status()));
    std::vector<void*> outputs;
    bool empty = true;
    for (size_t k = 0; k < results->size(); ++k) {
      Tensor* output = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(
                                  k, TensorShape((*results)[k]), &output));
      outputs.push_back(output->flat<float>().data());
      empty = empty && output->NumElements() == 0;
    }
    if (empty) return;  // a batch of no images
    OP_REQUIRES_OK(context, ToAbsl(program_->Run(inputs, outputs, nullptr)));
  }

 private:
  std::unique_ptr<Program> program_;
};

// The profiler of `block`, whose JSON is `program`; one for all kernels that are
// alive: they differ in how they measure, not in what.
StatusOr<std::shared_ptr<Profiler>> SharedProfiler(const std::string& program,
                                                   const Block& block,
                                                   const std::string& device) {
  static std::mutex mutex;
  static auto* profilers =
      new std::map<std::pair<std::string, std::string>, std::weak_ptr<Profiler>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Profiler>& known = (*profilers)[{program, device}];
  std::shared_ptr<Profiler> profiler = known.lock();
  if (!profiler) {
    IOS_ASSIGN_OR_RETURN(std::unique_ptr<Profiler> created,
                         Profiler::Create(block, device));
    profiler = std::move(created);
    known = profiler;
  }
  return profiler;
}

class IosStageLatencyOp : public OpKernel {
 public:
  explicit IosStageLatencyOp(OpKernelConstruction* context)
      : OpKernel(context) {
    std::string json, device;
    OP_REQUIRES_OK(context, context->GetAttr("program", &json));
    OP_REQUIRES_OK(context, context->GetAttr("device", &device));
    OP_REQUIRES_OK(context, context->GetAttr("warmup", &measurement_.warmup));
    OP_REQUIRES_OK(context, context->GetAttr("number", &measurement_.number));
    OP_REQUIRES_OK(context, context->GetAttr("repeat", &measurement_.repeat));
    OP_REQUIRES_OK(context, context->GetAttr("lanes", &measurement_.lanes));
    StatusOr<Block> block = BlockFromJson(json);
    OP_REQUIRES_OK(context, ToAbsl(block.status()));
    num_operators_ = block->operators.size();
    StatusOr<std::shared_ptr<Profiler>> profiler =
        SharedProfiler(json, *block, device);
    OP_REQUIRES_OK(context, ToAbsl(profiler.status()));
    profiler_ = std::move(*profiler);
  }

  void Compute(OpKernelContext* context) override {
    std::vector<Stage> stages;
    OP_REQUIRES_OK(context, ReadStages(context, &stages));
    StatusOr<std::vector<double>> latencies =
        profiler_->Measure(stages, measurement_);
    OP_REQUIRES_OK(context, ToAbsl(latencies.status()));
    Tensor* output = nullptr;
    const int64_t repeat = latencies->size();
    OP_REQUIRES_OK(
        context, context->allocate_output(0, TensorShape({repeat}), &output));
    std::copy(latencies->begin(), latencies->end(),
              output->flat<double>().data());
  }

 private:
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
      if (strategy(s) != 0 && strategy(s) != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("strategy ", strategy(s), " is neither 0 nor 1"));
      }
      stages->push_back(
          {strategy(s) == 1 ? Strategy::kMerge : Strategy::kConcurrent, {}});
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

REGISTER_KERNEL_BUILDER(Name("IosRegion").Device(tensorflow::DEVICE_CPU),
                        IosRegionOp);
REGISTER_KERNEL_BUILDER(Name("IosStageLatency").Device(tensorflow::DEVICE_CPU),
                        IosStageLatencyOp);

}  // namespace
}  // namespace ios::tf

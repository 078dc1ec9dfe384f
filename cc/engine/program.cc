#include "cc/engine/program.h"

#include <limits>
#include <list>
#include <mutex>
#include <utility>

#include "cc/core/merge.h"
#include "cc/engine/backend.h"
#include "cc/engine/executable.h"

namespace ios {
namespace {

// Shapes a program keeps compiled; more evict the least recently used.
constexpr size_t kMaxExecutables = 8;

// Every operator's weights have the shapes its attributes ask for.
Status CheckWeights(const Block& block, const std::vector<Shape>& shapes,
                    const Weights& weights) {
  if (weights.size() != block.operators.size()) {
    return InvalidArgument("weights of " + std::to_string(weights.size()) +
                           " operators for a block of " +
                           std::to_string(block.operators.size()));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Operator& op = block.operators[i];
    const std::vector<Shape> wanted =
        WeightShapes(op, ShapeOf(block, shapes, op.inputs[0]));
    bool fits = wanted.size() == weights[i].size();
    for (size_t k = 0; fits && k < wanted.size(); ++k) {
      fits = weights[i][k].data && weights[i][k].shape == wanted[k];
    }
    if (!fits) {
      return InvalidArgument("operator " + std::to_string(i) + " '" + op.name +
                             "' does not have the weights its attributes ask "
                             "for");
    }
  }
  return Status();
}

// The weights of the lowered block's operators, on the device.
StatusOr<Parameters> MakeParameters(Backend* backend, const Block& block,
                                    const std::vector<Shape>& shapes,
                                    const Weights& weights,
                                    const Lowered& lowered) {
  Parameters parameters;
  for (size_t i = 0; i < lowered.block.operators.size(); ++i) {
    const Operator& op = lowered.block.operators[i];
    const std::vector<int>& origin = lowered.origin[i];
    std::vector<ConstArray> arrays;
    std::vector<float> filter, bias;
    if (origin.size() > 1) {
      IOS_ASSIGN_OR_RETURN(const MergePlan plan, PlanMerge(block, origin));
      const Shape& input =
          ShapeOf(block, shapes, block.operators[origin[0]].inputs[0]);
      std::vector<const float*> filters, biases;
      for (int part : origin) {
        filters.push_back(weights[part][0].data);
        biases.push_back(block.operators[part].bias ? weights[part][1].data
                                                    : nullptr);
      }
      StackWeights(plan, block, input[3], filters, biases, &filter, &bias);
      const std::vector<Shape> wanted = WeightShapes(op, input);
      arrays.push_back({filter.data(), wanted[0]});
      if (op.bias) arrays.push_back({bias.data(), wanted[1]});
    } else if (op.type != OperatorType::kSlice) {
      arrays = weights[origin[0]];
    }
    std::vector<std::shared_ptr<Parameter>> of_operator;
    for (const ConstArray& array : arrays) {
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<Parameter> parameter,
                           backend->MakeParameter(array));
      of_operator.push_back(std::move(parameter));
    }
    parameters.push_back(std::move(of_operator));
  }
  return parameters;
}

class ProgramImpl : public Program {
 public:
  ProgramImpl(Backend* backend, Lowered lowered, Parameters parameters)
      : backend_(backend),
        lowered_(std::move(lowered)),
        parameters_(std::move(parameters)) {}

  StatusOr<std::vector<Shape>> OutputShapes(
      const std::vector<Shape>& inputs) const override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& compiled : compiled_) {
        if (compiled->inputs == inputs) return compiled->outputs;
      }
    }
    IOS_ASSIGN_OR_RETURN(const Block block, WithInputs(inputs));
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
    return OfOutputs(shapes);
  }

  Status Run(const std::vector<TensorArray>& inputs,
             const std::vector<void*>& outputs, void* stream) override {
    std::vector<Shape> shapes;
    std::vector<const void*> data;
    for (const TensorArray& input : inputs) {
      shapes.push_back(input.shape);
      data.push_back(input.data);
    }
    if (outputs.size() != lowered_.block.outputs.size()) {
      return InvalidArgument("wrong number of outputs");
    }
    IOS_ASSIGN_OR_RETURN(const std::shared_ptr<Compiled> compiled,
                         CompiledFor(shapes));
    return compiled->execution->Run(data, outputs, stream);
  }

  Status RunOnHost(const std::vector<TensorArray>& inputs,
                   const std::vector<void*>& outputs) override {
    if (backend_->SharesHostMemory()) return Run(inputs, outputs, nullptr);
    const int64_t size = SizeOf(lowered_.block.dtype);
    std::vector<std::shared_ptr<void>> memory;
    std::vector<TensorArray> on_device;
    std::vector<Shape> shapes;
    for (const TensorArray& input : inputs) {
      const int64_t bytes = NumElements(input.shape) * size;
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> data,
                           backend_->Allocate(bytes));
      IOS_RETURN_IF_ERROR(backend_->Upload(input.data, bytes, data.get()));
      on_device.push_back({data.get(), input.shape});
      shapes.push_back(input.shape);
      memory.push_back(std::move(data));
    }
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> results,
                         OutputShapes(shapes));
    std::vector<void*> results_on_device;
    for (const Shape& shape : results) {
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> data,
                           backend_->Allocate(NumElements(shape) * size));
      results_on_device.push_back(data.get());
      memory.push_back(std::move(data));
    }
    if (outputs.size() != results.size()) {
      return InvalidArgument("wrong number of outputs");
    }
    IOS_RETURN_IF_ERROR(Run(on_device, results_on_device, nullptr));
    for (size_t i = 0; i < results.size(); ++i) {
      IOS_RETURN_IF_ERROR(backend_->Download(results_on_device[i],
                                             NumElements(results[i]) * size,
                                             nullptr, outputs[i]));
    }
    return Status();
  }

  // The executable for these input shapes, compiled now if there is none.
  Status Prepare(const std::vector<Shape>& inputs) {
    return CompiledFor(inputs).status();
  }

 private:
  struct Compiled {
    std::vector<Shape> inputs, outputs;
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Execution> execution;
  };

  std::vector<Shape> OfOutputs(const std::vector<Shape>& shapes) const {
    std::vector<Shape> outputs;
    for (int out : lowered_.block.outputs) outputs.push_back(shapes[out]);
    return outputs;
  }

  StatusOr<Block> WithInputs(const std::vector<Shape>& inputs) const {
    if (inputs.size() != lowered_.block.inputs.size()) {
      return InvalidArgument(
          "region takes " + std::to_string(lowered_.block.inputs.size()) +
          " inputs, got " + std::to_string(inputs.size()));
    }
    Block block = lowered_.block;
    for (size_t i = 0; i < inputs.size(); ++i) {
      // Weights fix the channels; the other dimensions are free.
      if (inputs[i].size() != block.inputs[i].size() ||
          inputs[i].back() != block.inputs[i].back()) {
        return InvalidArgument("input " + std::to_string(i) + " is " +
                               ToString(inputs[i]) + ", expected the rank and "
                               "channels of " + ToString(block.inputs[i]));
      }
      block.inputs[i] = inputs[i];
    }
    return block;
  }

  StatusOr<std::shared_ptr<Compiled>> CompiledFor(
      const std::vector<Shape>& inputs) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = compiled_.begin(); it != compiled_.end(); ++it) {
      if ((*it)->inputs == inputs) {
        compiled_.splice(compiled_.begin(), compiled_, it);
        return compiled_.front();
      }
    }
    IOS_ASSIGN_OR_RETURN(const Block block, WithInputs(inputs));
    IOS_RETURN_IF_ERROR(Validate(block));
    auto compiled = std::make_shared<Compiled>();
    compiled->inputs = inputs;
    IOS_ASSIGN_OR_RETURN(
        compiled->executable,
        Executable::Create(backend_, block, lowered_.schedule, parameters_,
                           /*share_memory=*/true));
    compiled->outputs = OfOutputs(compiled->executable->shapes());
    Work work;
    IOS_ASSIGN_OR_RETURN(work.stages, compiled->executable->Bind(
                                          lowered_.schedule.stages));
    work.tensors = compiled->executable->Locations();
    work.arena_bytes = compiled->executable->arena_bytes();
    IOS_ASSIGN_OR_RETURN(compiled->execution, backend_->Load(std::move(work)));
    compiled_.push_front(compiled);
    if (compiled_.size() > kMaxExecutables) compiled_.pop_back();
    return compiled;
  }

  Backend* const backend_;
  const Lowered lowered_;
  const Parameters parameters_;
  mutable std::mutex mutex_;  // of compiled_
  std::list<std::shared_ptr<Compiled>> compiled_;  // most recent first
};

}  // namespace

StatusOr<std::unique_ptr<Program>> Program::Create(const Block& block,
                                                   const Schedule& schedule,
                                                   const Weights& weights,
                                                   const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  IOS_RETURN_IF_ERROR(Validate(block));
  IOS_RETURN_IF_ERROR(backend->Supports(block.dtype));
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
  IOS_RETURN_IF_ERROR(CheckWeights(block, shapes, weights));
  IOS_ASSIGN_OR_RETURN(Lowered lowered, LowerMerges(block, schedule));
  IOS_ASSIGN_OR_RETURN(
      Parameters parameters,
      MakeParameters(backend, block, shapes, weights, lowered));
  auto program = std::make_unique<ProgramImpl>(backend, std::move(lowered),
                                               std::move(parameters));
  // Packs the weights, so that the caller's copy can go.
  IOS_RETURN_IF_ERROR(program->Prepare(block.inputs));
  return std::unique_ptr<Program>(std::move(program));
}

StatusOr<int> LaneCount(const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  return backend->LanesFor(std::numeric_limits<int>::max());
}

StatusOr<bool> LanesDivideDevice(const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  return backend->LanesDivideDevice();
}

StatusOr<std::string> DeviceFingerprint(const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  return backend->Fingerprint();
}

}  // namespace ios

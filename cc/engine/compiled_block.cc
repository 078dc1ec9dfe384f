#include "cc/engine/compiled_block.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/core/ops/definition.h"
#include "cc/core/transforms/activations.h"
#include "cc/core/transforms/commute.h"

namespace ios {
namespace {

// Returns an error if an input is empty and the operator has no result for it;
// see TaskSpec::reads_nothing.
Status CheckReads(const TaskSpec& spec) {
  const OperatorType type = spec.op->type;
  if (type == OperatorType::kResize && NumElements(spec.output.shape) == 0) {
    return InvalidArgument("resize '" + spec.op->name +
                           "' has an output without pixels");
  }
  if (!spec.reads_nothing() ||
      DefinitionOf(type).reads_empty_images(*spec.op)) {
    return Status();
  }
  return InvalidArgument(std::string(ToString(type)) + " '" + spec.op->name +
                         "' reads a tensor without elements");
}

}  // namespace

StatusOr<std::unique_ptr<CompiledBlock>> CompiledBlock::Create(
    Backend* backend, const Block& block, const Schedule& schedule,
    const Parameters& parameters, const MemoryPlanOptions& options,
    bool may_measure) {
  std::unique_ptr<CompiledBlock> compiled(
      new CompiledBlock(backend, block, parameters, may_measure));
  IOS_RETURN_IF_ERROR(compiled->Plan(schedule, options));
  return compiled;
}

Status CompiledBlock::Plan(const Schedule& schedule,
                           const MemoryPlanOptions& options) {
  const DeviceTraits& device = backend_->traits();
  if (device.pools_activate) {
    IOS_ASSIGN_OR_RETURN(shapes_, InferShapes(block_));
    for (const auto& [to, from] : PoolAfterConvolutions(shapes_, &block_)) {
      std::swap(parameters_[to], parameters_[from]);
    }
  }
  IOS_ASSIGN_OR_RETURN(shapes_, InferShapes(block_));
  ActivateBeforeConcats(shapes_, device.absorbs, &block_);
  IOS_ASSIGN_OR_RETURN(shapes_, InferShapes(block_));
  ActivateAfterSums(shapes_, device.absorbs, &block_);
  plan_ = PlanMemory(block_, shapes_, schedule,
                     PlaceTensors(block_, shapes_, device), options);
  return Status();
}

StatusOr<Task*> CompiledBlock::TaskFor(int op, int lanes) {
  std::unique_ptr<Task>& task = tasks_[{op, lanes}];
  if (!task) {
    const Operator& description = block_.operators[op];
    TaskSpec spec;
    spec.op = &description;
    spec.dtype = block_.dtype;
    const TensorPlace& output = plan_.operators[op];
    spec.output = output.view;
    int64_t channel = 0;
    for (int input : description.inputs) {
      const std::vector<int> tensors = plan_.TensorsOf(block_, input);
      TaskSpec::Operand operand;
      operand.tensors = tensors.size();
      if (input >= 0 && plan_.absorbed[input]) {
        operand.absorbed = &block_.operators[input];
        operand.parameters = parameters_[input];
      }
      spec.operands.push_back(std::move(operand));
      for (int ref : tensors) {
        const TensorPlace& place = plan_.place(ref);
        spec.inputs.push_back(place.view);
        spec.in_place.push_back(place.buffer == output.buffer &&
                                place.offset == output.offset + channel);
        channel += place.view.channels();
      }
    }
    spec.parameters = parameters_[op];
    spec.lanes = lanes;
    spec.may_measure = may_measure_;
    spec.flops = Describe(op).operations;
    IOS_RETURN_IF_ERROR(CheckReads(spec));
    IOS_ASSIGN_OR_RETURN(task, backend_->Compile(spec));
  }
  return task.get();
}

TaskInfo CompiledBlock::Describe(int op) const {
  const Operator& description = block_.operators[op];
  TaskInfo info;
  info.name = description.name;
  info.type = description.type;
  info.algorithm = description.algorithm;
  info.dtype = block_.dtype;
  info.shape = shapes_[op];
  const auto bytes_of = [](const TensorView& view) {
    return NumElements(view.shape) * SizeOf(view.dtype);
  };
  info.bytes = bytes_of(plan_.operators[op].view);
  // Adds the work and the weights of an operator that the task computes to
  // `info`.
  const auto add = [&](int computed) {
    const Operator& one = block_.operators[computed];
    const std::vector<Shape> read = InputShapes(block_, shapes_, computed);
    info.operations += Flops(one, read, shapes_[computed]);
    for (const Shape& shape : WeightShapes(one, read[0])) {
      info.bytes += NumElements(shape) * SizeOf(block_.dtype);
    }
  };
  add(op);
  for (int input : description.inputs) {
    if (input >= 0 && plan_.absorbed[input]) add(input);
    for (int ref : plan_.TensorsOf(block_, input)) {
      info.bytes += bytes_of(plan_.place(ref).view);
    }
  }
  return info;
}

StatusOr<std::vector<BoundStage>> CompiledBlock::Bind(
    const std::vector<Stage>& stages, int lanes, std::vector<TaskInfo>* infos) {
  struct Group {
    int number;  // index in its stage
    int64_t flops;
    std::vector<int> ops;
  };
  std::vector<BoundStage> bound;
  for (size_t s = 0; s < stages.size(); ++s) {
    // The groups that have work, with their operations. The groups with the
    // most work come first, so that lanes, which take groups in turn, start
    // them early.
    std::vector<Group> groups;
    for (size_t g = 0; g < stages[s].groups.size(); ++g) {
      Group group = {static_cast<int>(g), 0, {}};
      for (int op : stages[s].groups[g]) {
        if (plan_.IsView(block_, op) || NumElements(shapes_[op]) == 0) continue;
        group.flops += Flops(block_.operators[op],
                             InputShapes(block_, shapes_, op), shapes_[op]);
        group.ops.push_back(op);
      }
      if (!group.ops.empty()) groups.push_back(std::move(group));
    }
    if (groups.empty()) continue;
    std::stable_sort(
        groups.begin(), groups.end(),
        [](const Group& a, const Group& b) { return a.flops > b.flops; });
    BoundStage out;
    out.lanes = backend_->traits().LanesFor(
        std::max(lanes, static_cast<int>(groups.size())));
    for (const Group& group : groups) {
      std::vector<BoundTask> tasks;
      for (int op : group.ops) {
        BoundTask task;
        IOS_ASSIGN_OR_RETURN(task.task, TaskFor(op, out.lanes));
        for (int input : block_.operators[op].inputs) {
          for (int ref : plan_.TensorsOf(block_, input)) {
            task.inputs.push_back(TensorIndex(ref));
          }
        }
        task.output = TensorIndex(op);
        if (infos) {
          task.number = static_cast<int>(infos->size());
          infos->push_back(Describe(op));
          infos->back().stage = static_cast<int>(s);
          infos->back().group = group.number;
        }
        tasks.push_back(std::move(task));
      }
      out.groups.push_back(std::move(tasks));
    }
    bound.push_back(std::move(out));
  }
  return bound;
}

std::vector<TensorLocation> CompiledBlock::Locations() const {
  std::vector<TensorLocation> locations;
  locations.reserve(plan_.inputs.size() + plan_.operators.size());
  const auto add = [&](const TensorPlace& place) {
    const Buffer& buffer = plan_.buffers[place.buffer];
    locations.push_back(
        {buffer.kind, buffer.index,
         (buffer.offset + place.offset) * SizeOf(buffer.dtype)});
  };
  for (const TensorPlace& place : plan_.inputs) add(place);
  for (const TensorPlace& place : plan_.operators) add(place);
  return locations;
}

}  // namespace ios

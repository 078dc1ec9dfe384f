#include "cc/engine/assembly.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace ios {
namespace {

// Bytes: what lanes write all the time is not to lie on each other's pages, and
// what starts there is aligned for any task.
constexpr int64_t kArenaAlignment = 8192;

int64_t AlignForArena(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// The part for so many images.
Block WithBatch(Block block, int64_t images) {
  for (Shape& shape : block.inputs) shape[0] = images;
  return block;
}

// The alignment, in elements, of every image of the part's inputs and outputs.
int64_t ImageAlignment(const PartOfBlock& part,
                       const std::vector<Shape>& shapes) {
  int64_t alignment = TensorView::kMaxAlignment;
  const auto include = [&](const Shape& shape) {
    alignment = std::min(alignment, AlignmentOf(NumElements(shape) / shape[0]));
  };
  for (const Shape& shape : part.block.inputs) include(shape);
  for (int op : part.outputs) include(shapes[op]);
  return alignment;
}

}  // namespace

StatusOr<std::unique_ptr<Assembly>> Assembly::Create(
    Backend* backend, const Block& block, const Schedule& schedule,
    const Parameters& parameters) {
  std::unique_ptr<Assembly> assembly(new Assembly(backend, block, parameters));
  IOS_ASSIGN_OR_RETURN(assembly->shapes_, InferShapes(block));
  assembly->outputs_.resize(block.operators.size());
  const std::vector<Segment> segments = assembly->SegmentsOf(schedule);
  std::vector<PartOfBlock> parts;
  for (const Segment& segment : segments) {
    std::vector<int> operators;
    for (const Stage& stage : segment.schedule.stages) {
      for (const std::vector<int>& group : stage.groups) {
        operators.insert(operators.end(), group.begin(), group.end());
      }
    }
    parts.push_back(TakePart(block, assembly->shapes_, operators));
    assembly->PlaceOutputs(parts.back());
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    IOS_RETURN_IF_ERROR(assembly->Append(segments[i], parts[i]));
  }
  Work& work = assembly->work_;
  for (const Shape& shape : block.inputs) {
    work.input_bytes.push_back(assembly->BytesOf(shape));
  }
  for (int op : block.outputs) {
    work.output_bytes.push_back(assembly->BytesOf(assembly->shapes_[op]));
  }
  return assembly;
}

std::vector<Assembly::Segment> Assembly::SegmentsOf(
    const Schedule& schedule) const {
  std::vector<Segment> segments;
  for (const Stage& stage : schedule.stages) {
    const int64_t micro_batches = MicroBatches(stage);
    if (segments.empty() || segments.back().micro_batches != micro_batches) {
      segments.push_back({micro_batches, {}});
    }
    std::vector<Stage>& stages = segments.back().schedule.stages;
    if (stage.strategy != Strategy::kSplit) {
      stages.push_back(stage);
      continue;
    }
    for (int op : stage.groups[0]) {
      stages.push_back({Strategy::kConcurrent, {{op}}});
    }
  }
  return segments;
}

// No more than images; and where not all tensors have one entry for each image,
// nothing is split.
int64_t Assembly::MicroBatches(const Stage& stage) const {
  if (stage.strategy != Strategy::kSplit) return 1;
  const int64_t images = BatchSize(block_);
  for (int op : stage.groups[0]) {
    if (shapes_[op][0] != images) return 1;
    const Shape& operand = block_.operators[op].operand;
    if (!operand.empty() && operand[0] != 1) return 1;
    for (const Shape& shape : InputShapes(block_, shapes_, op)) {
      if (shape[0] != images) return 1;
    }
  }
  return std::clamp<int64_t>(images, 1, stage.micro_batches);
}

void Assembly::PlaceOutputs(const PartOfBlock& part) {
  for (int op : part.outputs) {
    const auto output =
        std::find(block_.outputs.begin(), block_.outputs.end(), op);
    if (output != block_.outputs.end()) {
      outputs_[op] = {TensorLocation::kOutput,
                      static_cast<int>(output - block_.outputs.begin()), 0};
      continue;
    }
    outputs_[op] = {TensorLocation::kArena, 0, outputs_bytes_};
    outputs_bytes_ += AlignForArena(BytesOf(shapes_[op]));
  }
}

Status Assembly::Append(const Segment& segment, const PartOfBlock& part) {
  Parameters parameters;
  Schedule schedule = segment.schedule;
  for (Stage& stage : schedule.stages) {
    for (std::vector<int>& group : stage.groups) {
      for (int& op : group) {
        parameters.push_back(parameters_[op]);
        op = static_cast<int>(parameters.size()) - 1;  // as TakePart numbers it
      }
    }
  }
  const int64_t count = segment.micro_batches;
  const int64_t images = BatchSize(block_);
  if (count == 1) {
    IOS_ASSIGN_OR_RETURN(Executable* const executable,
                         AddExecutable(part.block, schedule, parameters,
                                       TensorView::kMaxAlignment));
    IOS_ASSIGN_OR_RETURN(std::vector<BoundStage> stages,
                         executable->Bind(schedule.stages));
    ShiftTensors(AddTensors(*executable, part, 0, outputs_bytes_), &stages);
    std::move(stages.begin(), stages.end(), std::back_inserter(work_.stages));
    UseArena(outputs_bytes_ + executable->arena_bytes());
    return Status();
  }

  BoundStage split;
  split.lanes = backend_->traits().LanesFor(count);
  int64_t arena_end = outputs_bytes_;
  for (int lane = 0; lane < split.lanes; ++lane) {
    const int64_t arena = arena_end;
    std::map<int64_t, Executable*> by_images;  // tasks serve one lane at a time
    std::vector<BoundTask> tasks;
    for (int64_t i = lane; i < count; i += split.lanes) {
      const int64_t first_image = i * images / count;
      const int64_t size = (i + 1) * images / count - first_image;
      Executable*& executable = by_images[size];
      if (!executable) {
        IOS_ASSIGN_OR_RETURN(
            executable,
            AddExecutable(WithBatch(part.block, size), schedule, parameters,
                          ImageAlignment(part, shapes_)));
      }
      arena_end =
          std::max(arena_end, AlignForArena(arena + executable->arena_bytes()));
      IOS_ASSIGN_OR_RETURN(std::vector<BoundStage> stages,
                           executable->Bind(schedule.stages, split.lanes));
      ShiftTensors(AddTensors(*executable, part, first_image, arena), &stages);
      for (const BoundStage& stage : stages) {
        tasks.insert(tasks.end(), stage.groups[0].begin(),
                     stage.groups[0].end());
      }
    }
    split.groups.push_back(std::move(tasks));
  }
  work_.stages.push_back(std::move(split));
  UseArena(arena_end);
  return Status();
}

StatusOr<Executable*> Assembly::AddExecutable(const Block& block,
                                              const Schedule& schedule,
                                              const Parameters& parameters,
                                              int64_t border_alignment) {
  IOS_ASSIGN_OR_RETURN(
      std::unique_ptr<Executable> executable,
      Executable::Create(backend_, block, schedule, parameters,
                         /*share_memory=*/true, border_alignment));
  executables_.push_back(std::move(executable));
  return executables_.back().get();
}

int Assembly::AddTensors(const Executable& executable, const PartOfBlock& part,
                         int64_t first_image, int64_t arena_offset) {
  const int first = work_.tensors.size();
  for (const TensorLocation& inside : executable.Locations()) {
    TensorLocation location = {TensorLocation::kArena, 0, arena_offset};
    if (inside.kind != TensorLocation::kArena) {
      const int ref = inside.kind == TensorLocation::kInput
                          ? part.inputs[inside.index]
                          : part.outputs[inside.index];
      const Shape& shape = ShapeOf(block_, shapes_, ref);
      location = ref < 0 ? TensorLocation{TensorLocation::kInput, -1 - ref, 0}
                         : outputs_[ref];
      if (first_image > 0) {
        location.offset += BytesOf(shape) / shape[0] * first_image;
      }
    }
    location.offset += inside.offset;
    work_.tensors.push_back(location);
  }
  return first;
}

}  // namespace ios

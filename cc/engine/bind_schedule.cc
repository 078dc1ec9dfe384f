#include "cc/engine/bind_schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace ios {
namespace {

// The alignment in bytes of memory in the arena. It is sufficient for any task,
// and the arenas of different lanes do not share a page.
constexpr int64_t kArenaAlignment = 8192;

int64_t AlignForArena(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Returns the block with `images` images in each input.
Block WithBatch(Block block, int64_t images) {
  for (Shape& shape : block.inputs) shape[0] = images;
  return block;
}

// Returns the largest alignment, in elements, that every image in the part's
// inputs and outputs has.
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

// Consecutive stages with the same number of micro-batches. Their operators are
// compiled as a separate block.
struct Segment {
  int64_t micro_batches = 1;
  Schedule schedule;  // concurrent stages of the whole block's operators
  // The original stage that each stage of `schedule` comes from.
  std::vector<int> origins;
  PartOfBlock part;
};

class ScheduleBinder {
 public:
  // Unless `compiles`, the bound schedule has its memory plan, but no tasks.
  ScheduleBinder(Backend* backend, const Block& block,
                 const std::vector<Shape>& shapes, const Parameters& parameters,
                 bool compiles, bool may_measure)
      : backend_(backend),
        block_(block),
        shapes_(shapes),
        parameters_(parameters),
        compiles_(compiles),
        may_measure_(may_measure),
        outputs_(block.operators.size()) {}

  StatusOr<BoundSchedule> Bind(const Schedule& schedule);

 private:
  std::vector<Segment> SegmentsOf(const Schedule& schedule) const;
  int64_t MicroBatches(const Stage& stage) const;
  // Assigns locations to the outputs of one segment's `part`.
  void PlaceOutputs(const PartOfBlock& part);
  Status Append(const Segment& segment);
  // Binds stages of `compiled`, which has the segment's operators for one
  // micro-batch, and describes their tasks.
  StatusOr<std::vector<BoundStage>> BindStages(const Segment& segment,
                                               const std::vector<Stage>& stages,
                                               CompiledBlock* compiled,
                                               int lanes, int micro_batch);
  StatusOr<CompiledBlock*> AddBlock(const Block& block,
                                    const Schedule& schedule,
                                    const Parameters& parameters,
                                    int64_t border_alignment);
  // Adds the compiled block's tensors to the table and returns the index of the
  // first one. The part's inputs and outputs start at image `first_image`, and
  // its arena at `arena_offset`.
  int AddTensors(const CompiledBlock& compiled, const PartOfBlock& part,
                 int64_t first_image, int64_t arena_offset);
  void UseArena(int64_t bytes) {
    bound_.arena_bytes = std::max(bound_.arena_bytes, bytes);
  }
  int64_t BytesOf(int ref) const {
    return NumElements(ShapeOf(block_, shapes_, ref)) *
           SizeOf(DtypeOf(block_, ref));
  }

  Backend* const backend_;
  const Block& block_;
  const std::vector<Shape>& shapes_;
  const Parameters& parameters_;
  const bool compiles_, may_measure_;
  // outputs_[i] is the location of the output of operator i. It is set only for
  // operators whose output leaves their segment.
  std::vector<TensorLocation> outputs_;
  // The part of the arena, in bytes, for tensors that pass from one segment to
  // another.
  int64_t outputs_bytes_ = 0;
  BoundSchedule bound_;
  ScheduleInfo info_;
};

StatusOr<BoundSchedule> ScheduleBinder::Bind(const Schedule& schedule) {
  const std::vector<Segment> segments = SegmentsOf(schedule);
  for (const Segment& segment : segments) PlaceOutputs(segment.part);
  for (const Segment& segment : segments) {
    IOS_RETURN_IF_ERROR(Append(segment));
  }
  for (size_t i = 0; i < block_.inputs.size(); ++i) {
    bound_.input_bytes.push_back(BytesOf(-1 - static_cast<int>(i)));
  }
  for (int op : block_.outputs) bound_.output_bytes.push_back(BytesOf(op));
  info_.region = block_.name;
  info_.batch_size = BatchSize(block_);
  info_.callers = block_.callers;
  bound_.info = std::make_shared<const ScheduleInfo>(std::move(info_));
  return std::move(bound_);
}

std::vector<Segment> ScheduleBinder::SegmentsOf(
    const Schedule& schedule) const {
  std::vector<Segment> segments;
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const Stage& stage = schedule.stages[s];
    const int64_t micro_batches = MicroBatches(stage);
    if (segments.empty() || segments.back().micro_batches != micro_batches) {
      segments.push_back({micro_batches, {}, {}, {}});
    }
    Segment& segment = segments.back();
    std::vector<Stage>& stages = segment.schedule.stages;
    if (stage.strategy == Strategy::kSplit) {
      for (int op : stage.groups[0]) {
        stages.push_back({Strategy::kConcurrent, {{op}}});
      }
    } else {
      stages.push_back(stage);
    }
    segment.origins.resize(stages.size(), static_cast<int>(s));
  }
  for (Segment& segment : segments) {
    std::vector<int> operators;
    for (const Stage& stage : segment.schedule.stages) {
      for (const std::vector<int>& group : stage.groups) {
        operators.insert(operators.end(), group.begin(), group.end());
      }
    }
    segment.part = TakePart(block_, shapes_, operators);
  }
  return segments;
}

// Returns the number of micro-batches into which a stage is split: at most one
// per image. Returns 1 if the first dimension of some tensor is not the number
// of images.
int64_t ScheduleBinder::MicroBatches(const Stage& stage) const {
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

void ScheduleBinder::PlaceOutputs(const PartOfBlock& part) {
  for (int op : part.outputs) {
    const auto output =
        std::find(block_.outputs.begin(), block_.outputs.end(), op);
    if (output != block_.outputs.end()) {
      outputs_[op] = {TensorLocation::kOutput,
                      static_cast<int>(output - block_.outputs.begin()), 0};
      continue;
    }
    outputs_[op] = {TensorLocation::kArena, 0, outputs_bytes_};
    outputs_bytes_ += AlignForArena(BytesOf(op));
  }
}

Status ScheduleBinder::Append(const Segment& segment) {
  const PartOfBlock& part = segment.part;
  Parameters parameters;
  Schedule schedule = segment.schedule;
  for (Stage& stage : schedule.stages) {
    for (std::vector<int>& group : stage.groups) {
      for (int& op : group) {
        parameters.push_back(parameters_[op]);
        op = static_cast<int>(parameters.size()) - 1;  // index in the part
      }
    }
  }
  const int64_t count = segment.micro_batches;
  const int64_t images = BatchSize(block_);
  if (count == 1) {
    IOS_ASSIGN_OR_RETURN(
        CompiledBlock* const compiled,
        AddBlock(part.block, schedule, parameters, TensorView::kMaxAlignment));
    IOS_ASSIGN_OR_RETURN(std::vector<BoundStage> stages,
                         BindStages(segment, schedule.stages, compiled, 0, 0));
    ShiftTensors(AddTensors(*compiled, part, 0, outputs_bytes_), &stages);
    std::move(stages.begin(), stages.end(), std::back_inserter(bound_.stages));
    UseArena(outputs_bytes_ + compiled->arena_bytes());
    return Status();
  }

  BoundStage split;
  split.lanes = backend_->traits().LanesFor(count);
  int64_t arena_end = outputs_bytes_;
  for (int lane = 0; lane < split.lanes; ++lane) {
    const int64_t arena = arena_end;
    // The compiled blocks of this lane, keyed by the number of images in a
    // micro-batch. Lanes do not share compiled blocks, because a task serves
    // one lane at a time.
    std::map<int64_t, CompiledBlock*> by_images;
    std::vector<BoundTask> tasks;
    for (int64_t i = lane; i < count; i += split.lanes) {
      const int64_t first_image = i * images / count;
      const int64_t size = (i + 1) * images / count - first_image;
      CompiledBlock*& compiled = by_images[size];
      if (!compiled) {
        IOS_ASSIGN_OR_RETURN(
            compiled, AddBlock(WithBatch(part.block, size), schedule,
                               parameters, ImageAlignment(part, shapes_)));
      }
      arena_end =
          std::max(arena_end, AlignForArena(arena + compiled->arena_bytes()));
      IOS_ASSIGN_OR_RETURN(std::vector<BoundStage> stages,
                           BindStages(segment, schedule.stages, compiled,
                                      split.lanes, static_cast<int>(i)));
      ShiftTensors(AddTensors(*compiled, part, first_image, arena), &stages);
      for (const BoundStage& stage : stages) {
        tasks.insert(tasks.end(), stage.groups[0].begin(),
                     stage.groups[0].end());
      }
    }
    split.groups.push_back(std::move(tasks));
  }
  bound_.stages.push_back(std::move(split));
  UseArena(arena_end);
  return Status();
}

StatusOr<std::vector<BoundStage>> ScheduleBinder::BindStages(
    const Segment& segment, const std::vector<Stage>& stages,
    CompiledBlock* compiled, int lanes, int micro_batch) {
  if (!compiles_) return std::vector<BoundStage>();
  const size_t first = info_.tasks.size();
  IOS_ASSIGN_OR_RETURN(std::vector<BoundStage> bound,
                       compiled->Bind(stages, lanes, &info_.tasks));
  for (size_t i = first; i < info_.tasks.size(); ++i) {
    info_.tasks[i].stage = segment.origins[info_.tasks[i].stage];
    info_.tasks[i].micro_batch = micro_batch;
  }
  return bound;
}

StatusOr<CompiledBlock*> ScheduleBinder::AddBlock(const Block& block,
                                                  const Schedule& schedule,
                                                  const Parameters& parameters,
                                                  int64_t border_alignment) {
  MemoryPlanOptions options;
  options.border_alignment = border_alignment;
  IOS_ASSIGN_OR_RETURN(
      const std::shared_ptr<CompiledBlock> compiled,
      CompiledBlock::Create(backend_, block, schedule, parameters, options,
                            may_measure_));
  bound_.owners.push_back(compiled);
  return compiled.get();
}

int ScheduleBinder::AddTensors(const CompiledBlock& compiled,
                               const PartOfBlock& part, int64_t first_image,
                               int64_t arena_offset) {
  const int first = bound_.tensors.size();
  for (const TensorLocation& inside : compiled.Locations()) {
    TensorLocation location = {TensorLocation::kArena, 0, arena_offset};
    if (inside.kind != TensorLocation::kArena) {
      const int ref = inside.kind == TensorLocation::kInput
                          ? part.inputs[inside.index]
                          : part.outputs[inside.index];
      location = ref < 0 ? TensorLocation{TensorLocation::kInput, -1 - ref, 0}
                         : outputs_[ref];
      if (first_image > 0) {
        const int64_t images = ShapeOf(block_, shapes_, ref)[0];
        location.offset += BytesOf(ref) / images * first_image;
      }
    }
    location.offset += inside.offset;
    bound_.tensors.push_back(location);
  }
  return first;
}

}  // namespace

StatusOr<BoundSchedule> BindSchedule(Backend* backend, const Block& block,
                                     const std::vector<Shape>& shapes,
                                     const Schedule& schedule,
                                     const Parameters& parameters,
                                     bool may_measure) {
  return ScheduleBinder(backend, block, shapes, parameters, /*compiles=*/true,
                        may_measure)
      .Bind(schedule);
}

StatusOr<int64_t> ArenaBytes(Backend* backend, const Block& block,
                             const std::vector<Shape>& shapes,
                             const Schedule& schedule) {
  const Parameters none(block.operators.size());
  ScheduleBinder binder(backend, block, shapes, none, /*compiles=*/false,
                        /*may_measure=*/false);
  IOS_ASSIGN_OR_RETURN(const BoundSchedule bound, binder.Bind(schedule));
  return bound.arena_bytes;
}

}  // namespace ios

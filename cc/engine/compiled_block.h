// CompiledBlock: the operators of a block as tasks, compiled for one set of
// shapes, with one memory plan.
#ifndef IOS_TF_CC_ENGINE_COMPILED_BLOCK_H_
#define IOS_TF_CC_ENGINE_COMPILED_BLOCK_H_

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/memory_plan.h"

namespace ios {

// The weights of every operator on the device: [operator][WeightShapes index].
using Parameters = std::vector<std::vector<std::shared_ptr<Parameter>>>;

class CompiledBlock {
 public:
  // Compiles a block. All stages of `schedule` must be concurrent. The
  // properties of the device come from the backend; the properties in `options`
  // are ignored. For `may_measure`, see TaskSpec.
  static StatusOr<std::unique_ptr<CompiledBlock>> Create(
      Backend* backend, const Block& block, const Schedule& schedule,
      const Parameters& parameters, const MemoryPlanOptions& options,
      bool may_measure = true);

  // The shapes of the operators' outputs as they are executed. Intermediate
  // tensors may have other shapes than in the block that was given to Create,
  // because some operators change places.
  const std::vector<Shape>& shapes() const { return shapes_; }

  // Returns the stages with their tasks, and compiles the tasks that do not
  // exist yet. Operators that are views and stages without work are left out. A
  // stage gets one lane per group or `lanes` lanes, whichever is more, but at
  // most as many as the device has. Unless `infos` is null, a description of
  // each task is appended to it, and BoundTask::number is its index.
  StatusOr<std::vector<BoundStage>> Bind(
      const std::vector<Stage>& stages, int lanes = 0,
      std::vector<TaskInfo>* infos = nullptr);

  // Returns whether the output of `op` is a whole buffer, not a part of one.
  bool OwnsBuffer(int op) const { return plan_.OwnsBuffer(op); }

  // Locations() has the location of every tensor, and arena_bytes() the size of
  // the arena.
  std::vector<TensorLocation> Locations() const;
  int64_t arena_bytes() const {
    return plan_.arena_elements * SizeOf(block_.dtype);
  }

 private:
  CompiledBlock(Backend* backend, const Block& block,
                const Parameters& parameters, bool may_measure)
      : backend_(backend),
        block_(block),
        parameters_(parameters),
        may_measure_(may_measure) {}

  Status Plan(const Schedule& schedule, const MemoryPlanOptions& options);
  StatusOr<Task*> TaskFor(int op, int lanes);
  TaskInfo Describe(int op) const;
  // Returns the index of tensor reference `ref` in Locations().
  int TensorIndex(int ref) const {
    return ref < 0 ? -1 - ref : static_cast<int>(block_.inputs.size()) + ref;
  }

  Backend* const backend_;
  Block block_;  // as executed, with some pools and activations moved
  Parameters parameters_;
  const bool may_measure_;
  std::vector<Shape> shapes_;
  MemoryPlan plan_;
  // The compiled tasks. A key is {index of the operator, number of lanes}.
  std::map<std::pair<int, int>, std::unique_ptr<Task>> tasks_;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_COMPILED_BLOCK_H_

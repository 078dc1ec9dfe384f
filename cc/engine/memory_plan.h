// Memory plan: the location of every tensor of a block. Tensors with their own
// memory (see Placement) lie in one arena. Two tensors may share memory if no
// execution order that the schedule allows needs both at the same time.
#ifndef IOS_TF_CC_ENGINE_MEMORY_PLAN_H_
#define IOS_TF_CC_ENGINE_MEMORY_PLAN_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/placement.h"

namespace ios {

struct TensorPlace {
  TensorView view;
  int buffer = 0;      // index into MemoryPlan::buffers
  int64_t offset = 0;  // elements from the buffer's start
};

struct Buffer {
  TensorLocation::Kind kind = TensorLocation::kArena;
  int index = 0;  // kInput, kOutput: index in the block's inputs or outputs
  int64_t elements = 0;
  int64_t offset = 0;  // kArena: elements from the arena's start
  DataType dtype = DataType::kFloat32;
};

struct MemoryPlan {
  std::vector<TensorPlace> inputs;     // of the block
  std::vector<TensorPlace> operators;  // outputs of operators
  std::vector<bool> absorbed;          // see Placement
  std::vector<Buffer> buffers;
  int64_t arena_elements = 0;

  const TensorPlace& place(int ref) const {
    return ref < 0 ? inputs[-1 - ref] : operators[ref];
  }
  // Returns whether the output of operator `i` is a whole buffer.
  bool OwnsBuffer(int i) const {
    return operators[i].offset == 0 && operators[i].view.dense() &&
           NumElements(operators[i].view.shape) ==
               buffers[operators[i].buffer].elements;
  }
  // Returns whether operator `i` needs no task, because it is a slice that is a
  // view, or because its readers absorb it.
  bool IsView(const Block& block, int i) const;
  // Returns the tensors that a reader of `ref` reads: `ref` itself, or the
  // inputs of operator `ref` if its readers absorb it.
  std::vector<int> TensorsOf(const Block& block, int ref) const;
};

struct MemoryPlanOptions {
  // The alignment of the block's inputs and outputs in elements; see
  // TensorView::alignment.
  int64_t border_alignment = TensorView::kMaxAlignment;
  // If false, every buffer has its own memory, so that operators may run in any
  // order.
  bool share_memory = true;
};

// Plans the memory of a block. `schedule` must be valid for `block`, and its
// merge stages must have been lowered (see LowerMerges).
MemoryPlan PlanMemory(const Block& block, const std::vector<Shape>& shapes,
                      const Schedule& schedule, Placement placement,
                      const MemoryPlanOptions& options);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_MEMORY_PLAN_H_

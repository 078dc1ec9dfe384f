// Memory plan: where every tensor of a block lies. Those that have memory of
// their own (Placement) share one arena where the schedule allows no
// interleaving that has both live.
#ifndef IOS_TF_CC_ENGINE_MEMORY_PLAN_H_
#define IOS_TF_CC_ENGINE_MEMORY_PLAN_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/engine/backend.h"
#include "cc/engine/placement.h"

namespace ios {

struct TensorPlace {
  TensorView view;
  int buffer = 0;      // index into MemoryPlan::buffers
  int64_t offset = 0;  // elements from the buffer's start
};

struct Buffer {
  TensorLocation::Kind kind = TensorLocation::kArena;
  int index = 0;  // kInput, kOutput: which of the block's
  int64_t elements = 0;
  int64_t offset = 0;  // kArena: elements from the arena's start
};

struct MemoryPlan {
  std::vector<TensorPlace> inputs;     // of the block
  std::vector<TensorPlace> operators;  // outputs of operators
  std::vector<bool> in_pieces;         // the placement's
  std::vector<Buffer> buffers;
  int64_t arena_elements = 0;

  const TensorPlace& place(int ref) const {
    return ref < 0 ? inputs[-1 - ref] : operators[ref];
  }
  // Whether the output of operator `i` is all of its buffer.
  bool OwnsBuffer(int i) const {
    return operators[i].offset == 0 && operators[i].view.dense() &&
           NumElements(operators[i].view.shape) ==
               buffers[operators[i].buffer].elements;
  }
  // Whether operator `i` has nothing to do: a slice that is a view, or what is
  // left in pieces.
  bool IsView(const Block& block, int i) const;
  // The tensors that make up `ref`, or that it is computed of.
  std::vector<int> Pieces(const Block& block, int ref) const;
};

struct MemoryPlanOptions {
  // TensorView::alignment of the block's inputs and outputs.
  int64_t border_alignment = TensorView::kMaxAlignment;
  // False keeps every buffer apart: any operators may then run in any order.
  bool share_memory = true;
};

// `block` has no merge stages left (LowerMerges) and `schedule` is valid for
// it.
MemoryPlan PlanMemory(const Block& block, const std::vector<Shape>& shapes,
                      const Schedule& schedule, Placement placement,
                      const MemoryPlanOptions& options);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_MEMORY_PLAN_H_

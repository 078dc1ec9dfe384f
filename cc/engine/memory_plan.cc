#include "cc/engine/memory_plan.h"

#include <algorithm>
#include <utility>

namespace ios {
namespace {

// The alignment of tensors in bytes: one cache line, one AVX-512 vector, and
// one row of an AMX register.
constexpr int64_t kAlignment = 64;

// The position of an operator in a schedule: its stage, its group, and its
// position in the group.
struct Moment {
  int stage = 0, group = 0, position = 0;
};

std::vector<Moment> Moments(size_t operators, const Schedule& schedule) {
  std::vector<Moment> moments(operators);
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const auto& groups = schedule.stages[s].groups;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t p = 0; p < groups[g].size(); ++p) {
        moments[groups[g][p]] = {static_cast<int>(s), static_cast<int>(g),
                                 static_cast<int>(p)};
      }
    }
  }
  return moments;
}

// The first and the last moment at which operators of a set run. The group of a
// moment is kSeveral if different groups may come first (or last) in different
// executions.
class Span {
 public:
  void Include(const Moment& moment) {
    // Groups of one stage run in any order, so that any of these groups may be
    // the first or the last.
    const auto several = [&](Moment* end) {
      if (end->group != moment.group) end->group = kSeveral;
    };
    if (empty_ || moment.stage < first_.stage) {
      first_ = moment;
    } else if (moment.stage == first_.stage) {
      several(&first_);
      first_.position = std::min(first_.position, moment.position);
    }
    if (empty_ || moment.stage > last_.stage) {
      last_ = moment;
    } else if (moment.stage == last_.stage) {
      several(&last_);
      last_.position = std::max(last_.position, moment.position);
    }
    empty_ = false;
  }

  // Returns whether, in every execution, all operators of this span end before
  // any operator of `later` begins.
  bool Before(const Span& later) const {
    if (empty_ || later.empty_) return true;
    if (last_.stage != later.first_.stage) {
      return last_.stage < later.first_.stage;
    }
    return last_.group != kSeveral && last_.group == later.first_.group &&
           last_.position < later.first_.position;
  }

 private:
  static constexpr int kSeveral = -1;

  bool empty_ = true;
  Moment first_, last_;
};

// Gives each input of the block its own buffer, and each operator's output its
// own buffer or a place in the buffer of another operator.
void PlaceInBuffers(const Block& block, const std::vector<Shape>& shapes,
                    const Placement& placement, int64_t border_alignment,
                    MemoryPlan* plan) {
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    const Shape& shape = block.inputs[i];
    const DataType dtype = InputDtype(block, i);
    plan->inputs.push_back({{shape, shape.back(), border_alignment, dtype},
                            static_cast<int>(plan->buffers.size()),
                            0});
    plan->buffers.push_back({TensorLocation::kInput, static_cast<int>(i),
                             NumElements(shape), 0, dtype});
  }
  const int n = block.operators.size();
  plan->operators.resize(n);
  for (int i = 0; i < n; ++i) {
    if (placement.host[i] >= 0) continue;
    const DataType dtype = DtypeOf(block, i);
    plan->operators[i] = {DenseView(shapes[i], dtype),
                          static_cast<int>(plan->buffers.size()), 0};
    Buffer buffer{TensorLocation::kArena, 0,
                  placement.absorbed[i] ? 0 : NumElements(shapes[i]), 0, dtype};
    for (size_t k = 0; k < block.outputs.size(); ++k) {
      if (block.outputs[k] == i) {
        buffer.kind = TensorLocation::kOutput;
        buffer.index = k;
        plan->operators[i].view.alignment = border_alignment;
      }
    }
    plan->buffers.push_back(buffer);
  }
  for (int i = 0; i < n; ++i) {
    if (placement.host[i] < 0) continue;
    int root = i;
    int64_t offset = 0;
    while (placement.host[root] >= 0) {
      offset += placement.offset[root];
      root = placement.host[root];
    }
    const TensorPlace& host = plan->operators[root];
    plan->operators[i] = {
        {shapes[i], host.view.pitch,
         std::min(host.view.alignment, AlignmentOf(offset)), host.view.dtype},
        host.buffer,
        offset};
  }
}

// Returns, for each pair of buffers, whether both may be in use at the same
// time.
std::vector<std::vector<bool>> Conflicts(const Block& block,
                                         const Schedule& schedule,
                                         const MemoryPlan& plan) {
  const int operators = block.operators.size(), buffers = plan.buffers.size();
  const std::vector<Moment> moments = Moments(operators, schedule);
  std::vector<Span> spans(buffers);  // of the operators that touch the buffer
  for (int i = 0; i < operators; ++i) {
    spans[plan.operators[i].buffer].Include(moments[i]);
    for (int ref : block.operators[i].inputs) {
      for (int piece : plan.TensorsOf(block, ref)) {
        spans[plan.place(piece).buffer].Include(moments[i]);
      }
    }
  }
  std::vector<std::vector<bool>> conflict(buffers, std::vector<bool>(buffers));
  for (int a = 0; a < buffers; ++a) {
    for (int b = a + 1; b < buffers; ++b) {
      conflict[a][b] = conflict[b][a] =
          !spans[a].Before(spans[b]) && !spans[b].Before(spans[a]);
    }
  }
  return conflict;
}

// Gives every buffer of the arena an offset such that conflicting buffers do
// not overlap. Each buffer, beginning with the largest, gets the lowest free
// offset that is a multiple of `alignment`. Returns the size of the arena in
// elements.
int64_t AssignOffsets(const std::vector<std::vector<bool>>& conflict,
                      int64_t alignment, std::vector<Buffer>* buffers) {
  const auto align_up = [&](int64_t n) {
    return (n + alignment - 1) / alignment * alignment;
  };
  std::vector<int> order;
  for (size_t i = 0; i < buffers->size(); ++i) {
    if ((*buffers)[i].kind == TensorLocation::kArena) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return (*buffers)[a].elements > (*buffers)[b].elements;
  });
  int64_t arena = 0;
  std::vector<int> placed;  // sorted by offset
  for (int i : order) {
    int64_t offset = 0;
    for (int j : placed) {
      const Buffer& other = (*buffers)[j];
      if (!conflict[i][j]) continue;
      if (offset + (*buffers)[i].elements <= other.offset) break;
      offset = std::max(offset, align_up(other.offset + other.elements));
    }
    (*buffers)[i].offset = offset;
    arena = std::max(arena, align_up(offset + (*buffers)[i].elements));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](int a, int b) {
                                     return (*buffers)[a].offset <
                                            (*buffers)[b].offset;
                                   }),
                  i);
  }
  return arena;
}

}  // namespace

bool MemoryPlan::IsView(const Block& block, int i) const {
  if (absorbed[i]) return true;
  const Operator& op = block.operators[i];
  if (op.type != OperatorType::kSlice) return false;
  const TensorPlace& source = place(op.inputs[0]);
  return operators[i].buffer == source.buffer &&
         operators[i].offset == source.offset + op.offset;
}

std::vector<int> MemoryPlan::TensorsOf(const Block& block, int ref) const {
  if (ref < 0 || !absorbed[ref]) return {ref};
  return block.operators[ref].inputs;
}

MemoryPlan PlanMemory(const Block& block, const std::vector<Shape>& shapes,
                      const Schedule& schedule, Placement placement,
                      const MemoryPlanOptions& options) {
  MemoryPlan plan;
  PlaceInBuffers(block, shapes, placement, options.border_alignment, &plan);
  plan.absorbed = std::move(placement.absorbed);
  const size_t buffers = plan.buffers.size();
  plan.arena_elements = AssignOffsets(
      options.share_memory ? Conflicts(block, schedule, plan)
                           : std::vector<std::vector<bool>>(
                                 buffers, std::vector<bool>(buffers, true)),
      kAlignment / SizeOf(block.dtype), &plan.buffers);
  return plan;
}

}  // namespace ios

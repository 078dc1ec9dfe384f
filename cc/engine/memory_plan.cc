#include "cc/engine/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace ios {
namespace {

constexpr int64_t kAlignment = 16;  // floats: one cache line, one AVX-512 vector

int64_t AlignUp(int64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// When operators run relative to each other under a schedule.
class Order {
 public:
  Order(const Block& block, const Schedule& schedule)
      : stage_(block.operators.size()),
        group_(block.operators.size()),
        position_(block.operators.size()) {
    for (size_t s = 0; s < schedule.stages.size(); ++s) {
      const auto& groups = schedule.stages[s].groups;
      for (size_t g = 0; g < groups.size(); ++g) {
        for (size_t p = 0; p < groups[g].size(); ++p) {
          stage_[groups[g][p]] = s;
          group_[groups[g][p]] = g;
          position_[groups[g][p]] = p;
        }
      }
    }
  }

  // Whether `a` ends before `b` begins in every execution.
  bool Before(int a, int b) const {
    if (stage_[a] != stage_[b]) return stage_[a] < stage_[b];
    return group_[a] == group_[b] && position_[a] < position_[b];
  }

 private:
  std::vector<int> stage_, group_, position_;
};

// Where tensors lie relative to each other: each is its own buffer, or part of
// another operator's output.
struct Placement {
  std::vector<int> host;        // operator whose output contains this one's, or -1
  std::vector<int64_t> offset;  // in channels of the host's output
};

Placement PlaceInHosts(const Block& block, const std::vector<Shape>& shapes,
                       const MemoryPlanOptions& options) {
  const int n = block.operators.size();
  Placement placement{std::vector<int>(n, -1), std::vector<int64_t>(n, 0)};
  std::vector<std::vector<int>> readers(n);
  for (int i = 0; i < n; ++i) {
    for (int ref : block.operators[i].inputs) {
      if (ref >= 0) readers[ref].push_back(i);
    }
  }
  std::vector<bool> is_output(n, false);
  for (int out : block.outputs) is_output[out] = true;
  const auto readers_take_pitch = [&](int i, int except) {
    return std::all_of(readers[i].begin(), readers[i].end(), [&](int reader) {
      return reader == except ||
             options.reads_pitched(block.operators[reader]);
    });
  };
  for (int i = 0; i < n; ++i) {
    const Operator& op = block.operators[i];
    if (op.type == OperatorType::kConcat) {
      int64_t channel = 0;
      for (int ref : op.inputs) {
        const int64_t at = channel;
        channel += ShapeOf(block, shapes, ref).back();
        // A tensor has one place: not read twice by this concat, not already in
        // another, and region outputs must be dense.
        if (ref < 0 || is_output[ref] || placement.host[ref] >= 0 ||
            std::count(op.inputs.begin(), op.inputs.end(), ref) > 1 ||
            !readers_take_pitch(ref, i)) {
          continue;
        }
        placement.host[ref] = i;
        placement.offset[ref] = at;
      }
    } else if (op.type == OperatorType::kSlice) {
      // Of an operator's output only: block inputs belong to somebody else.
      if (op.inputs[0] >= 0 && !is_output[i] && readers_take_pitch(i, -1) &&
          std::none_of(readers[i].begin(), readers[i].end(), [&](int reader) {
            return block.operators[reader].type == OperatorType::kConcat;
          })) {
        placement.host[i] = op.inputs[0];
        placement.offset[i] = op.offset;
      }
    }
  }
  return placement;
}

// Gives every arena buffer an offset such that buffers in conflict do not
// overlap: largest first, each at the lowest place that is free.
int64_t AssignOffsets(const std::vector<std::vector<bool>>& conflict,
                      std::vector<Buffer>* buffers) {
  std::vector<int> order;
  for (size_t i = 0; i < buffers->size(); ++i) {
    if ((*buffers)[i].kind == Buffer::kArena) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return (*buffers)[a].floats > (*buffers)[b].floats;
  });
  int64_t arena = 0;
  std::vector<int> placed;  // by offset
  for (int i : order) {
    int64_t offset = 0;
    for (int j : placed) {
      const Buffer& other = (*buffers)[j];
      if (!conflict[i][j]) continue;
      if (offset + (*buffers)[i].floats <= other.offset) break;
      offset = std::max(offset, AlignUp(other.offset + other.floats));
    }
    (*buffers)[i].offset = offset;
    arena = std::max(arena, AlignUp(offset + (*buffers)[i].floats));
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
  const Operator& op = block.operators[i];
  return op.type == OperatorType::kSlice &&
         operators[i].buffer == place(op.inputs[0]).buffer;
}

MemoryPlan PlanMemory(const Block& block, const std::vector<Shape>& shapes,
                      const Schedule& schedule,
                      const MemoryPlanOptions& options) {
  const int n = block.operators.size();
  const Placement placement = PlaceInHosts(block, shapes, options);
  MemoryPlan plan;
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    const Shape& shape = block.inputs[i];
    plan.inputs.push_back(
        {DenseView(shape), static_cast<int>(plan.buffers.size()), 0});
    plan.buffers.push_back({Buffer::kInput, static_cast<int>(i),
                            NumElements(shape), 0});
  }
  plan.operators.resize(n);
  for (int i = 0; i < n; ++i) {
    if (placement.host[i] >= 0) continue;
    plan.operators[i] = {DenseView(shapes[i]),
                         static_cast<int>(plan.buffers.size()), 0};
    Buffer buffer{Buffer::kArena, 0, NumElements(shapes[i]), 0};
    for (size_t k = 0; k < block.outputs.size(); ++k) {
      if (block.outputs[k] == i) {
        buffer.kind = Buffer::kOutput;
        buffer.index = k;
      }
    }
    plan.buffers.push_back(buffer);
  }
  for (int i = 0; i < n; ++i) {
    if (placement.host[i] < 0) continue;
    int root = i;
    int64_t offset = 0;
    while (placement.host[root] >= 0) {
      offset += placement.offset[root];
      root = placement.host[root];
    }
    const TensorPlace& host = plan.operators[root];
    plan.operators[i] = {{shapes[i], host.view.pitch}, host.buffer, offset};
  }

  const int num_buffers = plan.buffers.size();
  std::vector<std::vector<int>> users(num_buffers);  // operators, each once
  for (int i = 0; i < n; ++i) {
    std::vector<int> touched = {plan.operators[i].buffer};
    for (int ref : block.operators[i].inputs) {
      touched.push_back(plan.place(ref).buffer);
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (int buffer : touched) users[buffer].push_back(i);
  }
  const Order order(block, schedule);
  const auto all_before = [&](int a, int b) {
    for (int u : users[a]) {
      for (int v : users[b]) {
        if (!order.Before(u, v)) return false;
      }
    }
    return true;
  };
  std::vector<std::vector<bool>> conflict(num_buffers,
                                          std::vector<bool>(num_buffers, true));
  if (options.share_memory) {
    for (int a = 0; a < num_buffers; ++a) {
      for (int b = a + 1; b < num_buffers; ++b) {
        conflict[a][b] = conflict[b][a] = !all_before(a, b) && !all_before(b, a);
      }
    }
  }
  plan.arena_floats = AssignOffsets(conflict, &plan.buffers);
  return plan;
}

}  // namespace ios

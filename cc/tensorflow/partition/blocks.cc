#include "cc/tensorflow/partition/blocks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "cc/core/ir/block_json.h"
#include "tensorflow/core/platform/hash.h"

namespace ios::tf {
namespace {

// OrderByAlap distinguishes operators by their readers, by the readers of these
// readers, and so on, up to this many steps.
constexpr int kHops = 8;

// Returns the type in which the engine stores a tensor.
DataType StoredType(const Partition& partition, TensorRef tensor) {
  const auto inside = partition.region_dtypes.find(tensor);
  return inside != partition.region_dtypes.end() ? inside->second
                                                 : partition.dtype(tensor);
}

}  // namespace

std::vector<int> OrderByAlap(const Partition& partition,
                             std::vector<int> operators) {
  std::map<int, int> height;
  for (int k : operators) height[k] = 0;
  const auto producer = [&](const TensorRef& t) {
    const auto it = partition.producer.find(t);
    return it != partition.producer.end() && height.count(it->second) > 0
               ? it->second
               : -1;
  };
  // readers[d][k] is a hash of the operators that read the output of operator k
  // directly or through at most d other operators.
  std::vector<std::map<int, uint64_t>> readers(kHops);
  std::map<int, uint64_t> attributes;
  for (int k : operators) {
    nlohmann::json json = OperatorToJsonValue(partition.operators[k].op);
    json.erase("name");
    attributes[k] = tensorflow::Hash64(json.dump());
  }
  for (auto it = operators.rbegin(); it != operators.rend(); ++it) {
    const std::vector<TensorRef>& inputs = partition.operators[*it].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int from = producer(inputs[i]);
      if (from < 0) continue;
      height[from] = std::max(height[from], height[*it] + 1);
      // The hashes of the readers are added, so that the order of the readers
      // does not matter.
      uint64_t found = tensorflow::Hash64Combine(attributes[*it], i);
      for (int d = 0; d < kHops; ++d) {
        readers[d][from] += found;
        found = tensorflow::Hash64Combine(found, readers[d][*it]);
      }
    }
  }
  std::map<int, std::vector<int>, std::greater<int>> levels;
  for (int k : operators) levels[height[k]].push_back(k);
  std::vector<int> order;
  std::map<int, int> position;
  for (auto& [level, members] : levels) {
    using Key = std::tuple<uint64_t, std::vector<int>, std::vector<uint64_t>>;
    std::map<int, Key> keys;
    for (int k : members) {
      auto& [own, inputs, further] = keys[k];
      own = attributes[k];
      for (const TensorRef& t : partition.operators[k].inputs) {
        const int from = producer(t);
        inputs.push_back(from < 0 ? -1 : position[from]);
      }
      for (int d = 0; d < kHops; ++d) further.push_back(readers[d][k]);
    }
    std::stable_sort(members.begin(), members.end(),
                     [&](int a, int b) { return keys[a] < keys[b]; });
    for (int k : members) {
      position[k] = order.size();
      order.push_back(k);
    }
  }
  return order;
}

std::vector<std::vector<int>> CutIntoBlocks(const Partition& partition,
                                            const std::vector<int>& order) {
  const int n = order.size();
  std::map<int, int> position;
  for (int p = 0; p < n; ++p) position[order[p]] = p;
  std::map<TensorRef, std::pair<int, int>> range;  // written, last read
  for (int p = 0; p < n; ++p) {
    for (const TensorRef& t : partition.operators[order[p]].inputs) {
      const auto producer = partition.producer.find(t);
      int from = -1;
      if (producer != partition.producer.end()) {
        const auto it = position.find(producer->second);
        if (it != position.end()) from = it->second;
      }
      auto& [written, read] = range.try_emplace(t, from, p).first->second;
      read = std::max(read, p);
    }
  }
  // live[p] is the number of tensors that are written before position p and
  // read at position p or later.
  std::vector<int> live(n + 1, 0);
  for (const auto& [tensor, span] : range) {
    for (int p = span.first + 1; p <= span.second; ++p) ++live[p];
  }
  std::vector<std::vector<int>> blocks;
  int begin = 0;
  for (int p = 1; p <= n; ++p) {
    if (p < n && live[p] > 1) continue;
    blocks.emplace_back(order.begin() + begin, order.begin() + p);
    begin = p;
  }
  return blocks;
}

std::vector<std::vector<int>> JoinChains(const Partition& partition,
                                         std::vector<std::vector<int>> blocks) {
  std::vector<std::vector<int>> joined;
  bool last_is_chain = false;
  for (std::vector<int>& block : blocks) {
    const bool chain = IsChain(MakeBlock(partition, block, "").block);
    if (chain && last_is_chain) {
      joined.back().insert(joined.back().end(), block.begin(), block.end());
    } else {
      joined.push_back(std::move(block));
    }
    last_is_chain = chain;
  }
  return joined;
}

PartitionBlock MakeBlock(const Partition& partition,
                         const std::vector<int>& operators, std::string name) {
  PartitionBlock result;
  result.block.name = std::move(name);
  result.operators = operators;
  result.block.dtype = partition.operators[operators[0]].dtype;
  result.block.callers = partition.callers;
  std::map<TensorRef, int> refs;
  std::set<int> covered;
  for (size_t i = 0; i < operators.size(); ++i) {
    refs[partition.operators[operators[i]].output] = i;
    covered.insert(partition.operators[operators[i]].nodes.begin(),
                   partition.operators[operators[i]].nodes.end());
  }
  std::set<int> members(operators.begin(), operators.end());
  for (int k : operators) {
    Operator op = partition.operators[k].op;
    for (const TensorRef& t : partition.operators[k].inputs) {
      const auto [it, is_new] =
          refs.try_emplace(t, -1 - static_cast<int>(result.inputs.size()));
      if (is_new) {
        result.inputs.push_back(t);
        const auto inside = partition.region_shapes.find(t);
        const Shape* shape = inside != partition.region_shapes.end()
                                 ? &inside->second
                                 : partition.shapes().shape(t);
        result.block.inputs.push_back(shape ? *shape : Shape());
        result.block.input_dtypes.push_back(StoredType(partition, t));
      }
      op.inputs.push_back(it->second);
    }
    result.block.operators.push_back(std::move(op));
  }
  // Finds the block's outputs: tensors that other operators or nodes read, or
  // that are read from outside of the graph.
  std::set<TensorRef> read;
  for (size_t k = 0; k < partition.operators.size(); ++k) {
    if (members.count(k) > 0) continue;
    read.insert(partition.operators[k].inputs.begin(),
                partition.operators[k].inputs.end());
  }
  for (size_t i = 0; i < operators.size(); ++i) {
    const TensorRef output = partition.operators[operators[i]].output;
    const std::vector<int>& readers = partition.graph().Consumers(output);
    if (read.count(output) > 0 || partition.graph().preserved(output.node) ||
        std::any_of(readers.begin(), readers.end(),
                    [&](int r) { return covered.count(r) == 0; })) {
      result.block.outputs.push_back(i);
      result.block.output_dtypes.push_back(StoredType(partition, output));
    }
  }
  SimplifyDtypes(&result.block);
  return result;
}

bool IsChain(const Block& block) {
  // In a chain, each operator reads the one before it.
  for (size_t i = 1; i < block.operators.size(); ++i) {
    const std::vector<int>& inputs = block.operators[i].inputs;
    if (std::count(inputs.begin(), inputs.end(), static_cast<int>(i) - 1) ==
        0) {
      return false;
    }
  }
  return true;
}

}  // namespace ios::tf

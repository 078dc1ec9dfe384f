#include "cc/tensorflow/partition/regions.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/core/ir/block_json.h"
#include "cc/tensorflow/fuse/fusion.h"
#include "cc/tensorflow/graph/layouts.h"
#include "tensorflow/core/platform/hash.h"

namespace ios::tf {
namespace {

// Operators and the nodes that are none, as one graph.
class Contraction {
 public:
  explicit Contraction(const Partition& partition)
      : partition_(partition), graph_(*partition.graph) {
    const int num_operators = partition.operators.size();
    num_items_ = num_operators + graph_.size();
    item_of_.resize(graph_.size());
    for (int i = 0; i < graph_.size(); ++i) item_of_[i] = num_operators + i;
    covered_.assign(graph_.size(), false);
    for (int k = 0; k < num_operators; ++k) {
      for (int i : partition.operators[k].nodes) {
        covered_[i] = true;
        item_of_[i] = k;
      }
    }
    for (int k = 0; k < num_operators; ++k) {
      item_of_[partition.operators[k].output.node] = k;
    }
  }

  // The level of each operator: how often a path to it leaves the operators (or
  // changes the device) and comes back. No path leaves the operators of one
  // level and comes back to them. Empty if nodes inside of operators make a
  // cycle.
  std::vector<int> Levels() {
    const int num_operators = partition_.operators.size();
    std::vector<std::vector<int>> readers(num_items_);
    std::vector<int> missing(num_items_, 0);
    for (int item = 0; item < num_items_; ++item) {
      for (int from : Dependencies(item)) {
        readers[from].push_back(item);
        ++missing[item];
      }
    }
    std::vector<int> level(num_items_, 0), open;
    std::vector<bool> after_operator(num_items_, false);
    for (int item = 0; item < num_items_; ++item) {
      if (missing[item] == 0) open.push_back(item);
    }
    size_t done = 0;
    for (; done < open.size(); ++done) {
      const int from = open[done];
      for (int to : readers[from]) {
        int next = level[from];
        if (to < num_operators) {
          const bool leaves = from < num_operators ? Device(from) != Device(to)
                                                   : bool{after_operator[from]};
          if (leaves) ++next;
        } else if (from < num_operators || after_operator[from]) {
          after_operator[to] = true;
        }
        level[to] = std::max(level[to], next);
        if (--missing[to] == 0) open.push_back(to);
      }
    }
    if (done != static_cast<size_t>(num_items_)) return {};
    level.resize(num_operators);
    return level;
  }

 private:
  const std::string& Device(int k) const {
    return graph_.node(partition_.operators[k].output.node).device();
  }

  std::set<int> Dependencies(int item) const {
    const int num_operators = partition_.operators.size();
    std::set<int> result;
    if (item < num_operators) {
      const ImportedOperator& op = partition_.operators[item];
      for (const TensorRef& t : op.inputs) Add(t, &result);
      for (int i : op.nodes) AddControls(i, &result);
    } else if (const int i = item - num_operators; !covered_[i]) {
      for (const TensorRef& t : graph_.inputs(i)) {
        const std::string& op = graph_.node(t.node).op();
        if (op == "NextIteration" || op == "RefNextIteration") continue;
        Add(graph_.Resolve(t), &result);
      }
      AddControls(i, &result);
    }
    result.erase(item);
    return result;
  }
  void Add(TensorRef tensor, std::set<int>* result) const {
    const auto it = partition_.producer.find(tensor);
    result->insert(it != partition_.producer.end() ? it->second
                                                   : item_of_[tensor.node]);
  }
  void AddControls(int i, std::set<int>* result) const {
    for (int c : graph_.controls(i)) {
      if (graph_.has_effect(c)) result->insert(item_of_[c]);
    }
  }

  const Partition& partition_;
  const GraphIndex& graph_;
  int num_items_ = 0;
  std::vector<int> item_of_;  // of a node; operators by their nodes
  std::vector<bool> covered_;
};

// How far OrderByAlap looks for what operators are for.
constexpr int kHops = 8;

// The operators of one region in the order in which blocks are cut from it: by
// the longest path to the end, so that what is needed late comes late.
// Operators of equal height are told apart by what they compute, of what, and
// for what, as near to them as it differs: the order of the nodes is not the
// same in `ios_tf convert` and in a server, and equal blocks must have equal
// signatures wherever they are.
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
  // readers[d][k]: what reads k's result, d steps further on.
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
      // Readers come in any order: a sum.
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

// The region cut where a single tensor is live. The search cuts further (a
// NASNet cell reads two earlier ones): ios_tf/scheduler/partition.
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
  // Of each position: tensors written before it and read from there on.
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

// Blocks with nothing to schedule are joined to one.
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

struct Misfit {
  int op;  // of the partition
  std::string reason;
};

// Whether an operator's result may have this shape, which the engine infers,
// where TensorFlow infers `wanted`. A tensor that leaves the region has exactly
// that one; inside, [N,C] may be [N,1,1,C].
bool Fits(const Shape& shape, const Shape* wanted, bool leaves) {
  if (!wanted) return false;
  if (shape == *wanted) return true;
  return !leaves && shape.size() != wanted->size() &&
         shape[0] == (*wanted)[0] && shape.back() == wanted->back() &&
         NumElements(shape) == NumElements(*wanted);
}

// The first operator whose result has not, for every probe, the shape that
// TensorFlow infers. Notes the shapes of all tensors inside.
std::optional<Misfit> FindMisfit(const std::vector<int>& region,
                                 Partition* partition) {
  const PartitionBlock made = MakeBlock(*partition, region, "");
  const Block& block = made.block;
  const std::set<int> outputs(block.outputs.begin(), block.outputs.end());
  for (int probe = 0; probe < partition->graph->probes(); ++probe) {
    std::vector<Shape> inputs;
    for (const TensorRef& t : made.inputs) {
      const Shape* shape = partition->graph->shape(t, probe);
      inputs.push_back(shape ? *shape : Shape());
    }
    // TensorFlow does not take these inputs of the graph.
    if (probe > 0 && std::count(inputs.begin(), inputs.end(), Shape()) > 0) {
      continue;
    }
    const bool required = probe < partition->graph->required_probes();
    std::vector<Shape> shapes;
    std::optional<Misfit> misfit;
    for (size_t i = 0; i < made.operators.size(); ++i) {
      const ImportedOperator& op = partition->operators[made.operators[i]];
      std::vector<Shape> read;
      for (int ref : block.operators[i].inputs) {
        read.push_back(ref < 0 ? inputs[-1 - ref] : shapes[ref]);
      }
      const Shape* wanted = partition->graph->shape(op.output, probe);
      if (!wanted && probe > 0 && !misfit) break;
      // Small sizes may leave nothing, which TensorFlow's rules differ about.
      if (!required && wanted && NumElements(*wanted) == 0) break;
      StatusOr<Shape> shape = InferShape(op.op, read);
      if (!shape.ok()) {
        if (required)
          return Misfit{made.operators[i], shape.status().message()};
        // TensorFlow's rules for shapes do not say all that its kernels refuse,
        // such as to mirror more cells than there are. What they say of the
        // operators before supposes that none of them refuses anything.
        misfit.reset();
        break;
      }
      if (!misfit && !Fits(*shape, wanted, outputs.count(i) > 0)) {
        misfit = Misfit{
            made.operators[i],
            absl::StrCat("it would give ", ToString(*shape), ", TensorFlow ",
                         wanted ? ToString(*wanted) : "an unknown shape")};
        if (required) break;
      }
      shapes.push_back(*std::move(shape));
      if (probe == 0) partition->shapes[op.output] = shapes.back();
    }
    if (misfit) return misfit;
  }
  return std::nullopt;
}

void NoteProducers(Partition* partition) {
  partition->producer.clear();
  for (size_t k = 0; k < partition->operators.size(); ++k) {
    partition->producer[partition->operators[k].output] = k;
  }
}

// Operators cover the nodes they stand for. What somebody else reads inside of
// one, the variance of a norm say, TensorFlow computes once more: it is covered
// no longer, nor is what it reads there.
void UncoverWhatOthersRead(Partition* partition) {
  const GraphIndex& graph = *partition->graph;
  std::set<int> covered, results;
  std::set<TensorRef> read;
  for (const ImportedOperator& op : partition->operators) {
    covered.insert(op.nodes.begin(), op.nodes.end());
    results.insert(op.output.node);
    const std::vector<int>& same = graph.aliases(op.output.node);
    results.insert(same.begin(), same.end());
    read.insert(op.inputs.begin(), op.inputs.end());
  }
  const auto is_shared = [&](int i) {
    const std::vector<int>& readers = graph.Consumers({i, 0});
    return graph.preserved(i) || read.count({i, 0}) > 0 ||
           std::any_of(readers.begin(), readers.end(),
                       [&](int r) { return covered.count(r) == 0; });
  };
  bool changed = true;
  while (std::exchange(changed, false)) {
    for (auto it = covered.begin(); it != covered.end();) {
      const bool shared = results.count(*it) == 0 && is_shared(*it);
      it = shared ? covered.erase(it) : std::next(it);
      changed = changed || shared;
    }
  }
  for (ImportedOperator& op : partition->operators) {
    op.nodes.erase(std::remove_if(op.nodes.begin(), op.nodes.end(),
                                  [&](int i) { return covered.count(i) == 0; }),
                   op.nodes.end());
  }
}

void LeaveToTensorFlow(std::vector<int> operators, Partition* partition) {
  std::sort(operators.rbegin(), operators.rend());
  for (int k : operators) {
    partition->operators.erase(partition->operators.begin() + k);
  }
  partition->shapes.clear();
  NoteProducers(partition);
}

absl::Status FindRegions(Partition* partition) {
  const std::vector<ImportedOperator>& operators = partition->operators;
  const int n = operators.size();
  const std::vector<int> level = Contraction(*partition).Levels();
  if (n > 0 && level.empty()) {
    return absl::InternalError("operators depend on each other in a cycle");
  }
  std::vector<int> root(n);
  std::iota(root.begin(), root.end(), 0);
  const std::function<int(int)> find = [&](int k) {
    while (root[k] != k) k = root[k] = root[root[k]];
    return k;
  };
  // Operators of one level belong together if one reads the other or both read
  // the same tensor: they may run concurrently, or merge.
  std::map<std::tuple<TensorRef, int, std::string>, int> first_reader;
  for (int k = 0; k < n; ++k) {
    const std::string& device =
        partition->graph->node(operators[k].output.node).device();
    for (const TensorRef& t : operators[k].inputs) {
      const auto it = partition->producer.find(t);
      if (it != partition->producer.end() && level[it->second] == level[k]) {
        root[find(k)] = find(it->second);
      }
      const auto [reader, is_first] =
          first_reader.try_emplace({t, level[k], device}, k);
      if (!is_first) root[find(k)] = find(reader->second);
    }
  }
  std::map<std::pair<int, int>, Region> regions;
  for (int k = 0; k < n; ++k) {
    regions[{level[k], find(k)}].operators.push_back(k);
  }
  // Misfits are left to TensorFlow, and the rest is partitioned again.
  std::vector<int> misfits;
  for (const auto& [key, region] : regions) {
    if (const auto misfit = FindMisfit(region.operators, partition)) {
      misfits.push_back(misfit->op);
      partition->refusals.push_back(
          {operators[misfit->op].output.node, misfit->reason});
    }
  }
  if (!misfits.empty()) {
    LeaveToTensorFlow(misfits, partition);
    return FindRegions(partition);
  }
  for (auto& [key, region] : regions) {
    std::vector<int>& members = region.operators;
    if (std::none_of(members.begin(), members.end(), [&](int k) {
          return IsConvolution(operators[k].op.type);
        })) {
      continue;
    }
    members = OrderByAlap(*partition, std::move(members));
    region.blocks = JoinChains(*partition, CutIntoBlocks(*partition, members));
    partition->regions.push_back(std::move(region));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Partition> PartitionGraph(
    const tensorflow::grappler::GrapplerItem& item,
    const PartitionOptions& options) {
  Partition partition;
  partition.placement = options.placement;
  TF_ASSIGN_OR_RETURN(
      partition.graph,
      GraphIndex::Create(item, options.batch_size, options.image_size));
  GraphIndex& graph = *partition.graph;
  graph.SetChannelsFirst(FindChannelsFirst(&graph));
  // The operand of a Reshape or Resize that is a shape, and what computes it
  // from other tensors' shapes, goes away with the node: it must not count as a
  // reader of those tensors. Which nodes go away is known only afterwards, so
  // all are assumed to, and the import is repeated without those that did not.
  std::set<int> ignored;
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.ShapeInput(i) >= 0 && !graph.constant(i) && graph.shape({i, 0})) {
      ignored.insert(i);
    }
  }
  while (true) {
    graph.IgnoreShapeInputs(ignored);
    partition.refusals.clear();
    partition.regions.clear();
    partition.shapes.clear();
    partition.operators = Fuse(
        graph, ImportNodes(&graph, options.placement, &partition.refusals));
    UncoverWhatOthersRead(&partition);
    NoteProducers(&partition);
    TF_RETURN_IF_ERROR(FindRegions(&partition));
    std::set<int> covered;
    for (const Region& region : partition.regions) {
      for (int k : region.operators) {
        covered.insert(partition.operators[k].nodes.begin(),
                       partition.operators[k].nodes.end());
      }
    }
    std::set<int> kept;
    for (int i : ignored) {
      if (covered.count(i) > 0) kept.insert(i);
    }
    if (kept.size() == ignored.size()) return partition;
    ignored = std::move(kept);
  }
}

PartitionBlock MakeBlock(const Partition& partition,
                         const std::vector<int>& operators, std::string name) {
  PartitionBlock result;
  result.block.name = std::move(name);
  result.operators = operators;
  result.block.dtype = partition.operators[operators[0]].dtype;
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
        const auto inside = partition.shapes.find(t);
        const Shape* shape = inside != partition.shapes.end()
                                 ? &inside->second
                                 : partition.graph->shape(t);
        result.block.inputs.push_back(shape ? *shape : Shape());
      }
      op.inputs.push_back(it->second);
    }
    result.block.operators.push_back(std::move(op));
  }
  // Outputs: read by operators or nodes outside, or from outside of the graph.
  std::set<TensorRef> read;
  for (size_t k = 0; k < partition.operators.size(); ++k) {
    if (members.count(k) > 0) continue;
    read.insert(partition.operators[k].inputs.begin(),
                partition.operators[k].inputs.end());
  }
  for (size_t i = 0; i < operators.size(); ++i) {
    const TensorRef output = partition.operators[operators[i]].output;
    const std::vector<int>& readers = partition.graph->Consumers(output);
    if (read.count(output) > 0 || partition.graph->preserved(output.node) ||
        std::any_of(readers.begin(), readers.end(),
                    [&](int r) { return covered.count(r) == 0; })) {
      result.block.outputs.push_back(i);
    }
  }
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

#include "cc/tensorflow/partition/regions.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/fuse/fusion.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/partition/levels.h"

namespace ios::tf {
namespace {

struct Misfit {
  int op;  // index of Partition::operators
  Reason reason;
  std::string text;
};

// Returns whether the shape that the engine infers for an operator's output
// fits `wanted`, the shape that TensorFlow infers. Inside of a region,
// [N,1,1,C] fits [N,C]. A tensor that leaves the region (`leaves`) must have
// exactly TensorFlow's shape.
bool Fits(const Shape& shape, const Shape* wanted, bool reshaped, bool leaves) {
  if (!wanted) return false;
  if (shape == *wanted) return true;
  if (reshaped && !leaves) return NumElements(shape) == NumElements(*wanted);
  return !leaves && shape.size() != wanted->size() &&
         shape[0] == (*wanted)[0] && shape.back() == wanted->back() &&
         NumElements(shape) == NumElements(*wanted);
}

// Returns the number of channels of each tensor.
std::vector<int64_t> Channels(const std::vector<Shape>& shapes) {
  std::vector<int64_t> channels;
  for (const Shape& shape : shapes) channels.push_back(shape.back());
  return channels;
}

// Returns the first operator that the engine would compute differently from
// TensorFlow, if any. The causes are: in some shape sample, its output has
// another shape than TensorFlow infers; or the number of channels that it reads
// varies between samples, which a program does not allow. Stores the shapes and
// data types of tensors inside of the region in the partition.
std::optional<Misfit> FindMisfit(const std::vector<int>& region,
                                 Partition* partition) {
  const PartitionBlock made = MakeBlock(*partition, region, "");
  const Block& block = made.block;
  const std::set<int> outputs(block.outputs.begin(), block.outputs.end());
  for (size_t i = 0; i < made.operators.size(); ++i) {
    if (outputs.count(i) > 0) continue;
    const ImportedOperator& op = partition->operators[made.operators[i]];
    partition->region_dtypes[op.output] = op.dtype;
  }
  std::vector<std::vector<int64_t>> channels;  // read in the first sample
  for (int sample = 0; sample < partition->shapes().samples(); ++sample) {
    std::vector<Shape> inputs;
    for (const TensorRef& t : made.inputs) {
      const Shape* shape = partition->shapes().shape(t, sample);
      inputs.push_back(shape ? *shape : Shape());
    }
    // If a shape is unknown, TensorFlow rejects the sizes of this sample.
    if (sample > 0 && std::count(inputs.begin(), inputs.end(), Shape()) > 0) {
      continue;
    }
    const bool required = sample < partition->shapes().required_samples();
    std::vector<Shape> shapes;
    std::optional<Misfit> misfit;
    for (size_t i = 0; i < made.operators.size(); ++i) {
      const ImportedOperator& op = partition->operators[made.operators[i]];
      std::vector<Shape> read;
      for (int ref : block.operators[i].inputs) {
        read.push_back(ref < 0 ? inputs[-1 - ref] : shapes[ref]);
      }
      const Shape* wanted = partition->shapes().shape(op.output, sample);
      if (!wanted && sample > 0 && !misfit) break;
      // Optional samples with small sizes may have empty tensors, for which
      // TensorFlow has other rules.
      if (!required && wanted && NumElements(*wanted) == 0) break;
      if (sample == 0) channels.push_back(Channels(read));
      if (Channels(read) != channels[i]) {
        return Misfit{made.operators[i], Reason::kChannelsVary,
                      "the number of input channels is not constant"};
      }
      StatusOr<Shape> shape = InferShape(op.op, read);
      if (!shape.ok()) {
        if (required)
          return Misfit{made.operators[i], Reason::kShapesDisagree,
                        shape.status().message()};
        // The engine refuses these inputs. TensorFlow's kernels do so as well,
        // although its shape functions accept them (for example, mirroring more
        // pixels than an image has). Nothing is computed in this sample, so
        // that an earlier misfit in it does not count.
        misfit.reset();
        break;
      }
      if (!misfit && !Fits(*shape, wanted, op.reshaped, outputs.count(i) > 0)) {
        misfit = Misfit{
            made.operators[i], Reason::kShapesDisagree,
            absl::StrCat("the engine infers the shape ", ToString(*shape),
                         ", but TensorFlow infers ",
                         wanted ? ToString(*wanted) : "an unknown shape")};
        if (required) break;
      }
      shapes.push_back(*std::move(shape));
      if (sample == 0) partition->region_shapes[op.output] = shapes.back();
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

// Some nodes that became parts of an operator are also read from outside of the
// operator, for example the variance of a norm. TensorFlow must then compute
// such a node, too. Removes it, and the nodes of the operator that it reads,
// from the operator's `nodes`.
void ReleaseSharedNodes(Partition* partition) {
  const GraphView& graph = partition->graph();
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
  partition->region_shapes.clear();
  partition->region_dtypes.clear();
  NoteProducers(partition);
}

// Returns whether these operators, which could form a region, should become
// one. Without a convolution, TensorFlow is about as fast as the engine. But
// several operators without a convolution become a region if only their
// precision separates them from a neighbouring region.
bool IsWorthARegion(const Partition& partition,
                    const std::vector<int>& members) {
  const std::vector<ImportedOperator>& operators = partition.operators;
  if (std::any_of(members.begin(), members.end(),
                  [&](int k) { return IsConvolution(operators[k].op.type); })) {
    return true;
  }
  if (members.size() == 1) return false;
  const std::set<int> inside(members.begin(), members.end());
  for (size_t k = 0; k < operators.size(); ++k) {
    for (const TensorRef& t : operators[k].inputs) {
      const auto from = partition.producer.find(t);
      if (from == partition.producer.end()) continue;
      if (inside.count(k) + inside.count(from->second) == 1 &&
          operators[k].dtype != operators[from->second].dtype) {
        return true;
      }
    }
  }
  return false;
}

absl::Status FindRegions(Partition* partition) {
  const std::vector<ImportedOperator>& operators = partition->operators;
  const int n = operators.size();
  const std::vector<int> level = FindLevels(*partition);
  if (n > 0 && level.empty()) {
    return absl::InternalError("operators depend on each other in a cycle");
  }
  std::vector<int> root(n);
  std::iota(root.begin(), root.end(), 0);
  const std::function<int(int)> find = [&](int k) {
    while (root[k] != k) k = root[k] = root[root[k]];
    return k;
  };
  // Puts two operators of one level into the same region if one reads the
  // other, or if both read the same tensor: such operators may run concurrently
  // or be merged.
  std::map<std::tuple<TensorRef, int, std::string, DataType>, int> first_reader;
  for (int k = 0; k < n; ++k) {
    const std::string& device =
        partition->graph().node(operators[k].output.node).device();
    for (const TensorRef& t : operators[k].inputs) {
      const auto it = partition->producer.find(t);
      if (it != partition->producer.end() && level[it->second] == level[k]) {
        root[find(k)] = find(it->second);
      }
      const auto [reader, is_first] = first_reader.try_emplace(
          {t, level[k], device, operators[k].dtype}, k);
      if (!is_first) root[find(k)] = find(reader->second);
    }
  }
  std::map<std::pair<int, int>, Region> regions;
  for (int k = 0; k < n; ++k) {
    regions[{level[k], find(k)}].operators.push_back(k);
  }
  // Leaves the misfits to TensorFlow, and partitions the other operators again.
  std::vector<int> misfits;
  for (const auto& [key, region] : regions) {
    if (const auto misfit = FindMisfit(region.operators, partition)) {
      misfits.push_back(misfit->op);
      for (int i : operators[misfit->op].nodes) {
        partition->refusals.push_back({i, misfit->reason, misfit->text});
      }
    }
  }
  if (!misfits.empty()) {
    LeaveToTensorFlow(misfits, partition);
    return FindRegions(partition);
  }
  for (auto& [key, region] : regions) {
    std::vector<int>& members = region.operators;
    if (!IsWorthARegion(*partition, members)) continue;
    members = OrderByAlap(*partition, std::move(members));
    region.blocks = JoinChains(*partition, CutIntoBlocks(*partition, members));
    partition->regions.push_back(std::move(region));
  }
  return absl::OkStatus();
}

}  // namespace

DataType Partition::dtype(TensorRef tensor) const {
  return ToDataType(shapes().dtype(tensor)).value_or(DataType::kFloat32);
}

absl::StatusOr<Partition> PartitionGraph(
    const tensorflow::grappler::GrapplerItem& item,
    const PartitionOptions& options) {
  Partition partition;
  partition.placement = options.placement;
  partition.callers = options.callers;
  TF_ASSIGN_OR_RETURN(
      partition.analyzed,
      AnalyzedGraph::Create(item, options.batch_size, options.image_size));
  GraphView& graph = partition.graph();
  // If a region computes a Reshape or Resize, the nodes that compute its shape
  // operand are removed. These nodes must then not count as readers of the
  // tensors whose shapes they read. But only the import shows which nodes are
  // removed. So the import first assumes that regions compute all nodes with
  // shape operands. It is repeated without this assumption for the nodes that
  // no region computes.
  std::set<int> ignored;
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.ShapeInput(i) >= 0 && !graph.constant(i) &&
        partition.shapes().shape({i, 0})) {
      ignored.insert(i);
    }
  }
  while (true) {
    graph.IgnoreShapeInputs(ignored);
    partition.refusals.clear();
    partition.regions.clear();
    partition.region_shapes.clear();
    partition.region_dtypes.clear();
    partition.operators =
        Fuse(*partition.analyzed,
             ImportNodes(partition.analyzed.get(), options.placement,
                         &partition.refusals));
    SetPrecision(graph, options.placement, options.precision,
                 &partition.operators);
    ReleaseSharedNodes(&partition);
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

}  // namespace ios::tf

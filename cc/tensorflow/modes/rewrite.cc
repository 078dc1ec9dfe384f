#include "cc/tensorflow/modes/rewrite.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/transforms/merge.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/graph_editor.h"
#include "cc/tensorflow/modes/annotations.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/status_util.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/path.h"

namespace ios::tf {
namespace {

using ::tensorflow::AddNodeAttr;
using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

StatusOr<Schedule> LoadSchedule(const std::string& path, const Block& block) {
  std::string json;
  const absl::Status read =
      tensorflow::ReadFileToString(tensorflow::Env::Default(), path, &json);
  if (absl::IsNotFound(read)) return NotFound("there is no such file");
  if (!read.ok()) return NotFound(std::string(read.message()));
  IOS_ASSIGN_OR_RETURN(Schedule schedule, ScheduleFromJson(json));
  IOS_RETURN_IF_ERROR(Validate(schedule, block));
  return schedule;
}

// A block of a graph, at each of its batch sizes.
struct SizedBlock {
  PartitionBlock made;           // at the first
  std::vector<Block> blocks;     // at each
  std::vector<int64_t> batches;  // of its region, at each
};

// The blocks of the regions that are not left, at one size, in the order to run
// them in.
std::vector<SizedBlock> BlocksOf(const Partition& partition,
                                 const std::set<int64_t>& left) {
  std::vector<SizedBlock> blocks;
  for (size_t r = 0; r < partition.regions.size(); ++r) {
    if (left.count(r) > 0) continue;
    const Region& region = partition.regions[r];
    const int64_t batch =
        BatchSize(MakeBlock(partition, region.operators, "").block);
    for (const std::vector<int>& operators : region.blocks) {
      PartitionBlock made = MakeBlock(partition, operators, "");
      Block block = made.block;
      blocks.push_back({std::move(made), {std::move(block)}, {batch}});
    }
  }
  return blocks;
}

// Equal for blocks that only differ in what may depend on the batch.
std::string SignatureOfAnyBatch(Block block) {
  for (Shape& shape : block.inputs) {
    std::fill(shape.begin(), shape.end() - 1, 0);
  }
  return Signature(block);
}

// Adds the blocks of the same graph at another batch size.
absl::Status AddSize(const Partition& first, const Partition& partition,
                     const std::set<int64_t>& left,
                     std::vector<SizedBlock>* blocks) {
  std::vector<SizedBlock> more = BlocksOf(partition, left);
  bool equal = more.size() == blocks->size();
  for (size_t b = 0; equal && b < more.size(); ++b) {
    const PartitionBlock& known = (*blocks)[b].made;
    const PartitionBlock& made = more[b].made;
    equal = made.operators.size() == known.operators.size();
    for (size_t i = 0; equal && i < known.operators.size(); ++i) {
      equal = partition.operators[made.operators[i]].output ==
              first.operators[known.operators[i]].output;
    }
    equal = equal &&
            SignatureOfAnyBatch(made.block) == SignatureOfAnyBatch(known.block);
  }
  if (!equal) {
    return absl::InvalidArgumentError(
        "the graph is not the same network at all of these batch sizes");
  }
  for (size_t b = 0; b < more.size(); ++b) {
    (*blocks)[b].blocks.push_back(std::move(more[b].blocks[0]));
    (*blocks)[b].batches.push_back(more[b].batches[0]);
  }
  return absl::OkStatus();
}

// Of each merge stage its operators, sorted.
std::set<std::vector<int>> MergesOf(const Schedule& schedule) {
  std::set<std::vector<int>> merges;
  for (const Stage& stage : schedule.stages) {
    if (stage.strategy != Strategy::kMerge) continue;
    std::vector<int> group = stage.groups[0];
    std::sort(group.begin(), group.end());
    merges.insert(std::move(group));
  }
  return merges;
}

class Rewriter {
 public:
  Rewriter(const Partition& partition, const RewriteOptions& options,
           tensorflow::GraphDef* graph)
      : partition_(partition),
        options_(options),
        index_(*partition.graph),
        graph_(*graph),
        editor_(index_, graph) {}

  void Run(const std::vector<SizedBlock>& blocks) {
    std::vector<Scheduled> scheduled;
    int missing = 0;
    std::string first_problem;
    for (const SizedBlock& block : blocks) {
      StatusOr<Scheduled> found = Find(block);
      if (found.ok()) {
        scheduled.push_back(std::move(*found));
      } else if (missing++ == 0) {
        first_problem = found.status().message();
      }
    }
    if (missing > 0) {
      LOG(WARNING) << "ios_tf: " << missing
                   << " block(s) have no valid schedule and are left to "
                      "TensorFlow; the first: "
                   << first_problem;
    }
    for (size_t size = 0; !blocks.empty() && size < blocks[0].blocks.size();
         ++size) {
      int stage_number = 0;
      for (Scheduled& block : scheduled) {
        const Schedule& schedule = block.schedules[size];
        const Block computed =
            WithAlgorithms(block.sized->made.block, schedule);
        for (const Stage& stage : schedule.stages) {
          Apply(computed, stage, {block.sized->batches[size], stage_number++},
                &block);
        }
      }
    }
    for (const auto& [node, places] : places_) {
      Annotate(places, graph_.mutable_node(node));
    }
    MaterialiseMerges();
    editor_.Finish();
  }

 private:
  // A block with its schedule for each batch size.
  struct Scheduled {
    const SizedBlock* sized = nullptr;
    std::vector<Schedule> schedules;
    // The groups that all schedules merge, with their indices in merges_.
    std::map<std::vector<int>, int> merges;
  };

  struct Merge {
    MergePlan plan;
    const PartitionBlock* made;
    std::vector<Place> places;
  };

  StatusOr<Scheduled> Find(const SizedBlock& block) {
    Scheduled result;
    result.sized = &block;
    for (const Block& at_size : block.blocks) {
      const std::string path = tensorflow::io::JoinPath(
          options_.schedules, Signature(at_size) + ".json");
      StatusOr<Schedule> loaded = LoadSchedule(path, at_size);
      if (!loaded.ok() && IsChain(at_size)) {
        loaded = SequentialSchedule(at_size);
      }
      if (!loaded.ok()) {
        return InvalidArgument(
            absl::StrCat(path, ": ", loaded.status().message()));
      }
      result.schedules.push_back(std::move(*loaded));
    }
    if (!options_.materialise_merges) return result;
    for (const std::vector<int>& group : MergesOf(result.schedules[0])) {
      if (std::all_of(result.schedules.begin(), result.schedules.end(),
                      [&](const Schedule& schedule) {
                        return MergesOf(schedule).count(group) > 0;
                      })) {
        IOS_ASSIGN_OR_RETURN(MergePlan plan,
                             PlanMerge(block.made.block, group));
        result.merges[group] = merges_.size();
        merges_.push_back({std::move(plan), &block.made, {}});
      }
    }
    return result;
  }

  // Notes the place of a stage's operators at its batch size; those of
  // `computed` have their algorithms.
  void Apply(const Block& computed, const Stage& stage, Place place,
             Scheduled* block) {
    place.merge = stage.strategy == Strategy::kMerge;
    place.micro_batches = stage.micro_batches;
    if (place.merge) {
      std::vector<int> group = stage.groups[0];
      std::sort(group.begin(), group.end());
      const auto merge = block->merges.find(group);
      if (merge != block->merges.end()) {
        place.merge = false;  // it is one convolution by then
        const StatusOr<MergePlan> plan = PlanMerge(computed, group);
        if (plan.ok()) place.algorithm = plan->merged.algorithm;
        AddPlace(place, &merges_[merge->second].places);
        return;
      }
    }
    const PartitionBlock& made = block->sized->made;
    for (size_t group = 0; group < stage.groups.size(); ++group) {
      place.stream = group;
      for (int i : stage.groups[group]) {
        place.algorithm = computed.operators[i].algorithm;
        for (int n : partition_.operators[made.operators[i]].nodes) {
          AddPlace(place, &places_[n]);
        }
      }
    }
  }
  // A node may be of operators of several stages: the first needs it. And a
  // region may have one batch for all sizes.
  static void AddPlace(const Place& place, std::vector<Place>* places) {
    if (std::none_of(places->begin(), places->end(),
                     [&](const Place& p) { return p.batch == place.batch; })) {
      places->push_back(place);
    }
  }

  // All replacements are made known before the first new node reads a tensor:
  // merged convolutions read each other's results.
  void MaterialiseMerges() {
    std::vector<std::string> names;
    for (const Merge& merge : merges_) {
      const int first = merge.made->operators[merge.plan.parts[0].op];
      names.push_back(editor_.UniqueName(
          absl::StrCat(partition_.operators[first].op.name, kMerged)));
      const std::string split = names.back() + "/split";
      for (size_t i = 0; i < merge.plan.parts.size(); ++i) {
        const ImportedOperator& part =
            partition_.operators[merge.made->operators[merge.plan.parts[i].op]];
        // Readers of a part expect its own layout, not the merge's.
        const std::string output = i == 0 ? split : absl::StrCat(split, ":", i);
        device_ = index_.node(part.output.node).device();
        dtype_ = part.dtype;
        editor_.Replace(
            part.output,
            InLayout(absl::StrCat(names.back(), "/output_", i), output,
                     LayoutOf(merge), index_.layout(part.output)));
        for (int n : part.nodes) editor_.ReplaceControl(n, split);
      }
    }
    for (size_t m = 0; m < merges_.size(); ++m) {
      Materialise(merges_[m], names[m]);
    }
  }

  void Materialise(const Merge& merge, const std::string& name) {
    const Operator& op = merge.plan.merged;
    const ImportedOperator& first =
        partition_.operators[merge.made->operators[merge.plan.parts[0].op]];
    device_ = index_.node(first.output.node).device();
    dtype_ = merge.made->block.dtype;
    materialised_ = &merge.places;
    const Layout layout = LayoutOf(merge);
    const bool channels_first = layout == Layout::kChannelsFirst;
    const char* const format = channels_first ? "NCHW" : "NHWC";
    const auto dimensions = [&](int64_t height, int64_t width) {
      return channels_first ? std::vector<int64_t>{1, 1, height, width}
                            : std::vector<int64_t>{1, height, width, 1};
    };

    std::vector<const float*> biases;
    std::vector<int> nodes, sizes;
    for (const MergePlan::Part& part : merge.plan.parts) {
      const ImportedOperator& from = Imported(merge, part);
      biases.push_back(from.op.bias ? from.weights[1].values.data() : nullptr);
      nodes.insert(nodes.end(), from.nodes.begin(), from.nodes.end());
      sizes.push_back(from.op.filters);
    }
    const std::string filter_name = Filter(merge, name);
    const std::string input =
        InLayout(name + "/input", editor_.Input(first.inputs[0]),
                 index_.layout(first.inputs[0]), layout);
    NodeDef* conv = Node(name, "Conv2D", {input, filter_name});
    for (const std::string& wait : editor_.ControlInputs(nodes)) {
      conv->add_input(wait);
    }
    AddNodeAttr("strides", dimensions(op.strides[0], op.strides[1]), conv);
    AddNodeAttr("dilations", dimensions(op.dilations[0], op.dilations[1]),
                conv);
    AddNodeAttr("data_format", format, conv);
    AddNodeAttr("use_cudnn_on_gpu", true, conv);
    const Padding& p = op.padding;
    std::vector<int64_t> pads;
    if (p.type == PaddingType::kExplicit) {
      pads = {p.top, p.bottom, p.left, p.right};
      pads.insert(channels_first ? pads.begin() : pads.end(), {0, 0});
      pads.insert(pads.begin(), {0, 0});
    }
    AddNodeAttr("explicit_paddings", pads, conv);
    AddNodeAttr("padding",
                p.type == PaddingType::kSame    ? "SAME"
                : p.type == PaddingType::kValid ? "VALID"
                                                : "EXPLICIT",
                conv);
    std::string tensor = conv->name();
    if (op.bias) {
      const std::vector<float> bias =
          StackBiases(merge.plan, merge.made->block, biases);
      const std::string bias_name = Const(
          name + "/bias", MakeTensor(bias, TensorShape({op.filters}), dtype_));
      NodeDef* add = Node(name + "/bias_add", "BiasAdd", {tensor, bias_name});
      AddNodeAttr("data_format", format, add);
      tensor = add->name();
    }
    tensor = Activate(name, op.activation, tensor);

    Tensor part_sizes(tensorflow::DT_INT32,
                      TensorShape({static_cast<int64_t>(sizes.size())}));
    std::copy(sizes.begin(), sizes.end(), part_sizes.flat<int>().data());
    const std::string sizes_name = Const(name + "/sizes", part_sizes);
    const std::string axis_name =
        Const(name + "/axis", Tensor(channels_first ? 1 : 3));
    NodeDef* split =
        Node(name + "/split", "SplitV", {tensor, sizes_name, axis_name});
    AddNodeAttr("num_split", static_cast<int64_t>(sizes.size()), split);
    AddNodeAttr("Tlen", tensorflow::DT_INT32, split);
  }

  const ImportedOperator& Imported(const Merge& merge,
                                   const MergePlan::Part& part) const {
    return partition_.operators[merge.made->operators[part.op]];
  }

  // The stacked filters of a merge: a constant or, where some are variables,
  // what computes it of them.
  std::string Filter(const Merge& merge, const std::string& name) {
    const std::vector<MergePlan::Part>& parts = merge.plan.parts;
    const Operator& op = merge.plan.merged;
    std::vector<const float*> constants;
    int64_t channels = 0;
    for (const MergePlan::Part& part : parts) {
      const ImportedOperator& from = Imported(merge, part);
      const Weight& filter = from.weights[0];
      if (filter.constant()) {
        constants.push_back(filter.values.data());
        channels = filter.values.size() /
                   (from.op.kernel[0] * from.op.kernel[1] * from.op.filters);
      } else {
        channels = (*index_.shape(filter.variable))[2];
      }
    }
    const TensorShape shape({op.kernel[0], op.kernel[1], channels, op.filters});
    if (constants.size() == parts.size()) {
      return Const(name + "/filter",
                   MakeTensor(StackFilters(merge.plan, merge.made->block,
                                           channels, constants),
                              shape, dtype_));
    }
    std::vector<std::string> padded;
    for (const MergePlan::Part& part : parts) {
      padded.push_back(PaddedFilter(
          merge, part, channels, absl::StrCat(name, "/part_", padded.size())));
    }
    padded.push_back(Const(name + "/filter/axis", Tensor(3)));
    NodeDef* stacked = WeightNode(name + "/filter", "ConcatV2", padded, shape);
    AddNodeAttr("N", static_cast<int64_t>(parts.size()), stacked);
    AddNodeAttr("Tidx", tensorflow::DT_INT32, stacked);
    return stacked->name();
  }

  // The filter of one part, in a kernel of the merged convolution's size.
  std::string PaddedFilter(const Merge& merge, const MergePlan::Part& part,
                           int64_t channels, const std::string& name) {
    const Operator& merged = merge.plan.merged;
    const ImportedOperator& from = Imported(merge, part);
    const std::array<int64_t, 2>& kernel = from.op.kernel;
    const int64_t filters = from.op.filters;
    const TensorShape shape({kernel[0], kernel[1], channels, filters});
    const Weight& weight = from.weights[0];
    std::string filter =
        weight.constant()
            ? Const(name, MakeTensor(weight.values, shape, dtype_))
            : editor_.Input(weight.variable);
    if (!weight.recipe.scale.empty()) {
      const std::string scale = Const(
          name + "/factors",
          MakeTensor(weight.recipe.scale, TensorShape({filters}), dtype_));
      filter =
          WeightNode(name + "/scaled", "Mul", {filter, scale}, shape)->name();
    }
    if (kernel == merged.kernel) return filter;
    Tensor paddings(tensorflow::DT_INT32, TensorShape({4, 2}));
    auto cells = paddings.matrix<int>();
    cells.setZero();
    cells(0, 0) = part.row;
    cells(0, 1) = merged.kernel[0] - kernel[0] - part.row;
    cells(1, 0) = part.column;
    cells(1, 1) = merged.kernel[1] - kernel[1] - part.column;
    NodeDef* padded = WeightNode(
        name + "/padded", "Pad", {filter, Const(name + "/paddings", paddings)},
        TensorShape({merged.kernel[0], merged.kernel[1], channels, filters}));
    AddNodeAttr("Tpaddings", tensorflow::DT_INT32, padded);
    return padded->name();
  }

  // A node that computes a weight of variables.
  NodeDef* WeightNode(const std::string& name, const std::string& op,
                      const std::vector<std::string>& inputs,
                      const TensorShape& shape) {
    NodeDef* node = editor_.AddNode(name, op, device_);
    for (const std::string& input : inputs) node->add_input(input);
    AddNodeAttr("T", ToTensorFlow(dtype_), node);
    shape.AsProto((*node->mutable_attr())[kShapeOfWeight].mutable_shape());
    return node;
  }

  // Writes activations as TensorFlow's operations.
  std::string Activate(const std::string& name, const Activation& activation,
                       const std::string& x) {
    const float alpha = activation.alpha, beta = activation.beta;
    int made = 0;  // an operation may come twice
    const auto node = [&](const char* op,
                          const std::vector<std::string>& inputs) {
      return Node(absl::StrCat(name, "/", op, "_", made++), op, inputs);
    };
    const auto unary = [&](const char* op, const std::string& input) {
      return node(op, {input})->name();
    };
    const auto binary = [&](const char* op, const std::string& a,
                            const std::string& b) {
      return node(op, {a, b})->name();
    };
    const auto scalar = [&](float value) {
      return Const(absl::StrCat(name, "/constant_", made++),
                   MakeTensor({value}, TensorShape(), dtype_));
    };
    const auto with = [&](const char* op, const std::string& a, float value) {
      return binary(op, a, scalar(value));
    };
    const auto clip = [&](const std::string& input, float low, float high) {
      return with("Maximum", with("Minimum", input, high), low);
    };
    const auto gate = [&](const std::string& g) { return binary("Mul", x, g); };
    switch (activation.kind) {
      case Activation::kNone:
        return x;
      case Activation::kRelu:
        return unary("Relu", x);
      case Activation::kRelu6:
        return unary("Relu6", x);
      case Activation::kSigmoid:
        return unary("Sigmoid", x);
      case Activation::kTanh:
        return unary("Tanh", x);
      case Activation::kSwish:
        return gate(
            unary("Sigmoid", alpha == 1.0f ? x : with("Mul", x, alpha)));
      case Activation::kHardSigmoid:
        return clip(with("AddV2", with("Mul", x, alpha), beta), 0.0f, 1.0f);
      case Activation::kHardSwish:
        return gate(
            with("Mul", unary("Relu6", with("AddV2", x, 3.0f)), 1.0f / 6.0f));
      case Activation::kElu:
        if (alpha == 1.0f) return unary("Elu", x);
        return binary(
            "AddV2", unary("Relu", x),
            with("Mul", unary("Elu", with("Minimum", x, 0.0f)), alpha));
      case Activation::kLeakyRelu: {
        NodeDef* const leaky = node("LeakyRelu", {x});
        AddNodeAttr("alpha", alpha, leaky);
        return leaky->name();
      }
      case Activation::kSelu:
        return unary("Selu", x);
      case Activation::kSoftplus:
        return unary("Softplus", x);
      case Activation::kSoftsign:
        return unary("Softsign", x);
      case Activation::kGelu:
        return binary("Mul", with("Mul", x, 0.5f),
                      unary("Erfc", with("Mul", x, -0.70710678f)));
      case Activation::kGeluTanh: {
        const std::string cube = with("Pow", x, 3.0f);
        const std::string sum =
            binary("AddV2", x, with("Mul", cube, 0.044715f));
        const std::string tanh = unary("Tanh", with("Mul", sum, 0.79788456f));
        return binary("Mul", with("Mul", x, 0.5f), with("AddV2", tanh, 1.0f));
      }
      case Activation::kMish:
        return gate(unary("Tanh", unary("Softplus", x)));
      case Activation::kMaximum:
        return with("Maximum", x, alpha);
      case Activation::kMinimum:
        return with("Minimum", x, alpha);
      case Activation::kClip:
        return clip(x, alpha, beta);
      case Activation::kThreshold: {
        const std::string above = with("Greater", x, alpha);
        return node("SelectV2", {above, x, scalar(0.0f)})->name();
      }
      case Activation::kExp:
        return unary("Exp", x);
      case Activation::kExpm1:
        return unary("Expm1", x);
      case Activation::kLog:
        return unary("Log", x);
      case Activation::kLog1p:
        return unary("Log1p", x);
      case Activation::kSqrt:
        return unary("Sqrt", x);
      case Activation::kRsqrt:
        return unary("Rsqrt", x);
      case Activation::kSquare:
        return unary("Square", x);
      case Activation::kPow:
        return with("Pow", x, alpha);
      case Activation::kAbs:
        return unary("Abs", x);
      case Activation::kErf:
        return unary("Erf", x);
      case Activation::kErfc:
        return unary("Erfc", x);
    }
    return x;
  }

  // A merged convolution is NCHW only if all its parts are: not every
  // TensorFlow can convolve so on a CPU, and it must run where the parts did.
  // It is never one of sequences.
  Layout LayoutOf(const Merge& merge) const {
    const bool first = std::all_of(
        merge.plan.parts.begin(), merge.plan.parts.end(),
        [&](const MergePlan::Part& part) {
          return index_.channels_first(
              partition_.operators[merge.made->operators[part.op]].output);
        });
    return first ? Layout::kChannelsFirst : Layout::kChannelsLast;
  }

  std::string InLayout(const std::string& name, const std::string& tensor,
                       Layout from, Layout to) {
    return editor_.InLayout(name, tensor, from, to, ToTensorFlow(dtype_),
                            device_);
  }

  std::string Const(const std::string& name, const Tensor& value) {
    return editor_.AddConst(name, value, device_);
  }
  NodeDef* Node(const std::string& name, const std::string& op,
                const std::vector<std::string>& inputs) {
    NodeDef* node = editor_.AddNode(name, op, device_);
    for (const std::string& input : inputs) node->add_input(input);
    AddNodeAttr("T", ToTensorFlow(dtype_), node);
    Annotate(*materialised_, node);
    return node;
  }

  const Partition& partition_;
  const RewriteOptions& options_;
  const GraphIndex& index_;
  tensorflow::GraphDef& graph_;
  GraphEditor editor_;
  std::map<int, std::vector<Place>> places_;  // by node
  std::vector<Merge> merges_;
  // Of the merge that is being materialised.
  std::string device_;
  DataType dtype_ = DataType::kFloat32;
  const std::vector<Place>* materialised_ = nullptr;
};

}  // namespace

absl::Status Rewrite(const tensorflow::grappler::GrapplerItem& item,
                     PartitionOptions partition_options,
                     const RewriteOptions& options,
                     tensorflow::GraphDef* graph) {
  partition_options.batch_size = options.batch_sizes[0];
  TF_ASSIGN_OR_RETURN(const Partition partition,
                      PartitionGraph(item, partition_options));
  if (partition.regions.empty()) return absl::OkStatus();
  std::vector<SizedBlock> blocks = BlocksOf(partition, options.left);
  for (size_t i = 1; i < options.batch_sizes.size(); ++i) {
    partition_options.batch_size = options.batch_sizes[i];
    TF_ASSIGN_OR_RETURN(const Partition more,
                        PartitionGraph(item, partition_options));
    TF_RETURN_IF_ERROR(AddSize(partition, more, options.left, &blocks));
  }
  *graph = item.graph;
  Rewriter(partition, options, graph).Run(blocks);
  return absl::OkStatus();
}

}  // namespace ios::tf

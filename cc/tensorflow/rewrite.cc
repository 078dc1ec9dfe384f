#include "cc/tensorflow/rewrite.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/core/merge.h"
#include "cc/core/schedule.h"
#include "cc/tensorflow/annotations.h"
#include "cc/tensorflow/dtypes.h"
#include "cc/tensorflow/graph_editor.h"
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
  const absl::Status read = tensorflow::ReadFileToString(
      tensorflow::Env::Default(), path, &json);
  if (absl::IsNotFound(read)) return NotFound("there is no such file");
  if (!read.ok()) return NotFound(std::string(read.message()));
  IOS_ASSIGN_OR_RETURN(Schedule schedule, ScheduleFromJson(json));
  IOS_RETURN_IF_ERROR(Validate(schedule, block));
  return schedule;
}

class Rewriter {
 public:
  Rewriter(const Partition& partition, tensorflow::GraphDef* graph)
      : partition_(partition),
        index_(*partition.graph),
        graph_(*graph),
        editor_(index_, graph) {}

  absl::Status Run(const std::string& schedules) {
    int missing = 0;
    std::string first_problem;
    for (const Region& region : partition_.regions) {
      for (const std::vector<int>& operators : region.blocks) {
        const PartitionBlock made = MakeBlock(partition_, operators, "");
        Schedule schedule = SequentialSchedule(made.block);
        if (!IsChain(made.block)) {
          const std::string path = tensorflow::io::JoinPath(
              schedules, Signature(made.block) + ".json");
          StatusOr<Schedule> loaded = LoadSchedule(path, made.block);
          if (!loaded.ok()) {
            if (missing++ == 0) {
              first_problem = absl::StrCat(path, ": ",
                                           loaded.status().message());
            }
            continue;
          }
          schedule = std::move(*loaded);
        }
        for (const Stage& stage : schedule.stages) {
          TF_RETURN_IF_ERROR(Apply(stage, made));
          ++stage_;
        }
      }
    }
    if (missing > 0) {
      LOG(WARNING) << "ios_tf: " << missing
                   << " block(s) have no valid schedule and are left to "
                      "TensorFlow; the first: "
                   << first_problem;
    }
    MaterialiseMerges();
    editor_.Finish();
    return absl::OkStatus();
  }

 private:
  struct Merge {
    MergePlan plan;
    PartitionBlock made;
    int stage;
  };

  absl::Status Apply(const Stage& stage, const PartitionBlock& made) {
    if (stage.strategy == Strategy::kMerge) {
      StatusOr<MergePlan> plan = PlanMerge(made.block, stage.groups[0]);
      if (!plan.ok()) return ToAbsl(plan.status());
      merges_.push_back({std::move(*plan), made, stage_});
      return absl::OkStatus();
    }
    for (size_t group = 0; group < stage.groups.size(); ++group) {
      for (int i : stage.groups[group]) {
        for (int n : partition_.operators[made.operators[i]].nodes) {
          NodeDef* node = graph_.mutable_node(n);
          int known;
          // Shared by operators of several stages: the first needs it.
          if (tensorflow::TryGetNodeAttr(*node, kStageAttr, &known) &&
              known < stage_) {
            continue;
          }
          Annotate(stage_, group, node);
        }
      }
    }
    return absl::OkStatus();
  }

  static void Annotate(int stage, int stream, NodeDef* node) {
    tensorflow::AttrValue value;
    value.set_i(stage);
    (*node->mutable_attr())[kStageAttr] = value;
    value.set_i(stream);
    (*node->mutable_attr())[kStreamAttr] = value;
  }

  // All replacements are made known before the first new node reads a tensor:
  // merged convolutions read each other's results.
  void MaterialiseMerges() {
    std::vector<std::string> names;
    for (const Merge& merge : merges_) {
      const int first = merge.made.operators[merge.plan.parts[0].op];
      names.push_back(editor_.UniqueName(
          absl::StrCat(partition_.operators[first].op.name, "/ios_merge")));
      const std::string split = names.back() + "/split";
      for (size_t i = 0; i < merge.plan.parts.size(); ++i) {
        const ImportedOperator& part =
            partition_.operators[merge.made.operators[merge.plan.parts[i].op]];
        // What the readers of a part want to see, as the first part gives it.
        const std::string output = i == 0 ? split : absl::StrCat(split, ":", i);
        device_ = index_.node(part.output.node).device();
        dtype_ = part.dtype;
        editor_.Replace(
            part.output,
            InLayout(absl::StrCat(names.back(), "/output_", i), output,
                     index_.channels_first(partition_.operators[first].output),
                     index_.channels_first(part.output)));
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
        partition_.operators[merge.made.operators[merge.plan.parts[0].op]];
    device_ = index_.node(first.output.node).device();
    dtype_ = merge.made.block.dtype;
    stage_ = merge.stage;
    // As the first of the convolutions was.
    const bool channels_first = index_.channels_first(first.output);
    const char* const format = channels_first ? "NCHW" : "NHWC";
    const auto dimensions = [&](int64_t height, int64_t width) {
      return channels_first ? std::vector<int64_t>{1, 1, height, width}
                            : std::vector<int64_t>{1, height, width, 1};
    };

    std::vector<const float*> filters, biases;
    std::vector<int> nodes, sizes;
    for (const MergePlan::Part& part : merge.plan.parts) {
      const ImportedOperator& from =
          partition_.operators[merge.made.operators[part.op]];
      filters.push_back(from.weights[0].data());
      biases.push_back(from.op.bias ? from.weights[1].data() : nullptr);
      nodes.insert(nodes.end(), from.nodes.begin(), from.nodes.end());
      sizes.push_back(from.op.filters);
    }
    const int64_t channels = first.weights[0].size() /
                             (first.op.kernel[0] * first.op.kernel[1] *
                              first.op.filters);
    std::vector<float> filter, bias;
    StackWeights(merge.plan, merge.made.block, channels, filters, biases,
                 &filter, &bias);

    const std::string filter_name = Const(
        name + "/filter", MakeTensor(filter,
                                     TensorShape({op.kernel[0], op.kernel[1],
                                                  channels, op.filters}),
                                     dtype_));
    const std::string input =
        InLayout(name + "/input", editor_.Input(first.inputs[0]),
                 index_.channels_first(first.inputs[0]), channels_first);
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
      const std::string bias_name = Const(
          name + "/bias", MakeTensor(bias, TensorShape({op.filters}), dtype_));
      NodeDef* add = Node(name + "/bias_add", "BiasAdd", {tensor, bias_name});
      AddNodeAttr("data_format", format, add);
      tensor = add->name();
    }
    tensor = Activate(name, op.activation, std::move(tensor));

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

  std::string Activate(const std::string& name, Activation activation,
                       std::string x) {
    const auto scalar = [&](const std::string& suffix, float value) {
      return Const(name + suffix, MakeTensor({value}, TensorShape(), dtype_));
    };
    const auto unary = [&](const char* op, const std::string& input) {
      return Node(name + "/" + op, op, {input})->name();
    };
    const auto hard_sigmoid = [&]() {
      const std::string add =
          Node(name + "/add", "AddV2", {x, scalar("/three", 3.0f)})->name();
      return Node(name + "/sixth", "Mul",
                  {unary("Relu6", add), scalar("/one_sixth", 1.0f / 6.0f)})
          ->name();
    };
    switch (activation) {
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
      case Activation::kElu:
        return unary("Elu", x);
      case Activation::kHardSigmoid:
        return hard_sigmoid();
      case Activation::kSwish:
        return Node(name + "/gate", "Mul", {x, unary("Sigmoid", x)})->name();
      case Activation::kHardSwish:
        return Node(name + "/gate", "Mul", {x, hard_sigmoid()})->name();
    }
    return x;
  }

  // `tensor`, transposed if it is not in the layout wanted.
  std::string InLayout(const std::string& name, const std::string& tensor,
                       bool is_channels_first, bool channels_first) {
    if (is_channels_first == channels_first) return tensor;
    return editor_
        .AddTranspose(name, tensor, channels_first, ToTensorFlow(dtype_),
                      device_)
        ->name();
  }

  std::string Const(const std::string& name, const Tensor& value) {
    return editor_.AddConst(name, value, device_);
  }
  NodeDef* Node(const std::string& name, const std::string& op,
                const std::vector<std::string>& inputs) {
    NodeDef* node = editor_.AddNode(name, op, device_);
    for (const std::string& input : inputs) node->add_input(input);
    AddNodeAttr("T", ToTensorFlow(dtype_), node);
    Annotate(stage_, 0, node);
    return node;
  }

  const Partition& partition_;
  const GraphIndex& index_;
  tensorflow::GraphDef& graph_;
  GraphEditor editor_;
  int stage_ = 0;
  // Of the merge that is being materialised.
  std::string device_;
  DataType dtype_ = DataType::kFloat32;
  std::vector<Merge> merges_;
};

}  // namespace

absl::Status Rewrite(const Partition& partition, const std::string& schedules,
                     tensorflow::GraphDef* graph) {
  return Rewriter(partition, graph).Run(schedules);
}

}  // namespace ios::tf

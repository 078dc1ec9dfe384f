#include "cc/tensorflow/convert/merged_convolution.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/convert/activation_nodes.h"
#include "cc/tensorflow/convert/node_writer.h"
#include "cc/tensorflow/names.h"

namespace ios::tf {
namespace {

using ::tensorflow::AddNodeAttr;
using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

class MergeWriter {
 public:
  MergeWriter(const Partition& partition, const Merge& merge,
              GraphEditor* editor)
      : partition_(partition),
        view_(partition.graph()),
        shapes_(partition.shapes()),
        layouts_(partition.layouts()),
        merge_(merge),
        first_(Imported(merge.plan.parts[0])),
        channels_first_(AllHaveChannelsFirst()),
        name_(editor->UniqueName(absl::StrCat(first_.op.name, kMerged))),
        editor_(*editor),
        nodes_(editor, view_.node(first_.output.node).device(),
               partition.dtype(first_.output), first_.dtype, merge.places) {}

  void ReplaceParts() {
    const std::vector<MergePlan::Part>& parts = merge_.plan.parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      const ImportedOperator& part = Imported(parts[i]);
      // The readers of a part expect the layout that the part had. The merged
      // convolution may have another layout.
      editor_.Replace(
          part.output,
          editor_.InLayout(absl::StrCat(name_, "/output_", i), PartName(i),
                           layout(), layouts_.layout(part.output),
                           ToTensorFlow(nodes_.dtype()),
                           view_.node(part.output.node).device()));
      for (int n : part.nodes) {
        editor_.ReplaceControl(n, PartName(BatchIsOpen() ? i : 0));
      }
    }
  }

  void Write() {
    const Operator& op = merge_.plan.merged;
    const char* const format = channels_first_ ? "NCHW" : "NHWC";
    std::vector<const float*> biases;
    std::vector<int> nodes;
    for (const MergePlan::Part& part : merge_.plan.parts) {
      const ImportedOperator& from = Imported(part);
      biases.push_back(from.op.bias ? from.weights[1].values.data() : nullptr);
      nodes.insert(nodes.end(), from.nodes.begin(), from.nodes.end());
    }
    const std::string filter = Filter();
    const std::string input =
        nodes_.InLayout(name_ + "/input", editor_.Input(first_.inputs[0]),
                        layouts_.layout(first_.inputs[0]), layout());
    NodeDef* conv = nodes_.Node(name_, "Conv2D", {input, filter});
    for (const std::string& wait : editor_.ControlInputs(nodes)) {
      conv->add_input(wait);
    }
    SetAttributes(op, format, conv);
    std::string tensor = conv->name();
    if (op.bias) {
      const std::vector<float> bias =
          StackBiases(merge_.plan, merge_.made->block, biases);
      const std::string bias_name = nodes_.Const(
          name_ + "/bias",
          MakeTensor(bias, TensorShape({op.filters}), nodes_.dtype()));
      NodeDef* add =
          nodes_.Node(name_ + "/bias_add", "BiasAdd", {tensor, bias_name});
      AddNodeAttr("data_format", format, add);
      tensor = add->name();
    }
    tensor = WriteActivation(name_, op.activation, tensor, &nodes_);
    WriteParts(tensor);
  }

 private:
  // Returns the name of the new tensor that has the output of part `i`.
  std::string PartName(size_t i) const {
    if (BatchIsOpen()) return absl::StrCat(name_, "/slice_", i);
    return i == 0 ? name_ + "/split" : absl::StrCat(name_, "/split:", i);
  }

  // Returns true if the number of images depends on the batch size of the
  // graph's inputs, and may thus be 0. Compares the shape samples 1 and 2,
  // whose batch sizes are 3 and 5.
  bool BatchIsOpen() const {
    if (shapes_.samples() < 3) return false;
    const Shape* three = shapes_.shape(first_.inputs[0], 1);
    const Shape* five = shapes_.shape(first_.inputs[0], 2);
    return three && five && 5 * three->front() == 3 * five->front();
  }

  void WriteParts(const std::string& merged) {
    if (BatchIsOpen()) {
      WriteSlices(merged);
    } else {
      WriteSplit(merged);
    }
  }

  void WriteSplit(const std::string& merged) {
    const int64_t parts = merge_.plan.parts.size();
    Tensor sizes(tensorflow::DT_INT32, TensorShape({parts}));
    for (int64_t i = 0; i < parts; ++i) {
      sizes.flat<int>()(i) = Imported(merge_.plan.parts[i]).op.filters;
    }
    const std::string sizes_name = nodes_.Const(name_ + "/sizes", sizes);
    const std::string axis_name =
        nodes_.Const(name_ + "/axis", Tensor(channels_first_ ? 1 : 3));
    NodeDef* split = nodes_.Node(name_ + "/split", "SplitV",
                                 {merged, sizes_name, axis_name});
    AddNodeAttr("num_split", parts, split);
    AddNodeAttr("Tlen", tensorflow::DT_INT32, split);
  }

  // Adds a slice of the merged result for each part. A Split would fail for
  // empty batches, because TensorFlow's oneDNN convolution then returns a
  // tensor with the number of channels of its input.
  void WriteSlices(const std::string& merged) {
    const int axis = channels_first_ ? 1 : 3;
    const auto position = [&](const std::string& name, int channel,
                              int others) {
      Tensor value(tensorflow::DT_INT32, TensorShape({4}));
      value.flat<int>().setConstant(others);
      value.flat<int>()(axis) = channel;
      return nodes_.Const(name, value);
    };
    const std::string strides = position(name_ + "/strides", 1, 1);
    int first = 0;
    for (size_t i = 0; i < merge_.plan.parts.size(); ++i) {
      const int end = first + Imported(merge_.plan.parts[i]).op.filters;
      NodeDef* slice =
          nodes_.Node(PartName(i), "StridedSlice",
                      {merged, position(PartName(i) + "/begin", first, 0),
                       position(PartName(i) + "/end", end, 0), strides});
      AddNodeAttr("Index", tensorflow::DT_INT32, slice);
      const int64_t all_but_channels = 0b1111 & ~(1 << axis);
      AddNodeAttr("begin_mask", all_but_channels, slice);
      AddNodeAttr("end_mask", all_but_channels, slice);
      for (const char* mask :
           {"ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
        AddNodeAttr(mask, 0, slice);
      }
      first = end;
    }
  }

  const ImportedOperator& Imported(const MergePlan::Part& part) const {
    return partition_.operators[merge_.made->operators[part.op]];
  }

  // The merged convolution has the layout NCHW only if all its parts have it.
  // Not every build of TensorFlow supports NCHW convolutions on a CPU, and the
  // merged convolution must run wherever the parts ran. The merged convolution
  // never has the layout of sequences, [N,W,C].
  bool AllHaveChannelsFirst() const {
    return std::all_of(merge_.plan.parts.begin(), merge_.plan.parts.end(),
                       [&](const MergePlan::Part& part) {
                         return layouts_.channels_first(Imported(part).output);
                       });
  }
  Layout layout() const {
    return channels_first_ ? Layout::kChannelsFirst : Layout::kChannelsLast;
  }

  void SetAttributes(const Operator& op, const char* format,
                     NodeDef* conv) const {
    const auto dimensions = [&](int64_t height, int64_t width) {
      return channels_first_ ? std::vector<int64_t>{1, 1, height, width}
                             : std::vector<int64_t>{1, height, width, 1};
    };
    AddNodeAttr("strides", dimensions(op.strides[0], op.strides[1]), conv);
    AddNodeAttr("dilations", dimensions(op.dilations[0], op.dilations[1]),
                conv);
    AddNodeAttr("data_format", format, conv);
    AddNodeAttr("use_cudnn_on_gpu", true, conv);
    const Padding& p = op.padding;
    std::vector<int64_t> pads;
    if (p.type == PaddingType::kExplicit) {
      pads = {p.top, p.bottom, p.left, p.right};
      pads.insert(channels_first_ ? pads.begin() : pads.end(), {0, 0});
      pads.insert(pads.begin(), {0, 0});
    }
    AddNodeAttr("explicit_paddings", pads, conv);
    AddNodeAttr("padding",
                p.type == PaddingType::kSame    ? "SAME"
                : p.type == PaddingType::kValid ? "VALID"
                                                : "EXPLICIT",
                conv);
  }

  // Returns the name of the merged filter: a constant or, if some filters are
  // variables, a node that concatenates them.
  std::string Filter() {
    const std::vector<MergePlan::Part>& parts = merge_.plan.parts;
    const Operator& op = merge_.plan.merged;
    std::vector<const float*> constants;
    int64_t channels = 0;
    for (const MergePlan::Part& part : parts) {
      const ImportedOperator& from = Imported(part);
      const Weight& filter = from.weights[0];
      if (filter.constant()) {
        constants.push_back(filter.values.data());
        channels = filter.values.size() /
                   (from.op.kernel[0] * from.op.kernel[1] * from.op.filters);
      } else {
        channels = (*shapes_.shape(filter.variable))[2];
      }
    }
    const TensorShape shape({op.kernel[0], op.kernel[1], channels, op.filters});
    if (constants.size() == parts.size()) {
      return nodes_.Const(
          name_ + "/filter",
          MakeTensor(StackFilters(merge_.plan, merge_.made->block, channels,
                                  constants),
                     shape, nodes_.dtype()));
    }
    std::vector<std::string> padded;
    for (const MergePlan::Part& part : parts) {
      padded.push_back(PaddedFilter(
          part, channels, absl::StrCat(name_, "/part_", padded.size())));
    }
    padded.push_back(nodes_.Const(name_ + "/filter/axis", Tensor(3)));
    NodeDef* stacked =
        nodes_.WeightNode(name_ + "/filter", "ConcatV2", padded, shape);
    AddNodeAttr("N", static_cast<int64_t>(parts.size()), stacked);
    AddNodeAttr("Tidx", tensorflow::DT_INT32, stacked);
    return stacked->name();
  }

  // Returns the filter of one part, padded to the merged convolution's kernel.
  std::string PaddedFilter(const MergePlan::Part& part, int64_t channels,
                           const std::string& name) {
    const Operator& merged = merge_.plan.merged;
    const ImportedOperator& from = Imported(part);
    const std::array<int64_t, 2>& kernel = from.op.kernel;
    const int64_t filters = from.op.filters;
    const TensorShape shape({kernel[0], kernel[1], channels, filters});
    const Weight& weight = from.weights[0];
    std::string filter =
        weight.constant() ? nodes_.Const(name, MakeTensor(weight.values, shape,
                                                          nodes_.dtype()))
                          : editor_.Input(weight.variable);
    if (!weight.recipe.scale.empty()) {
      const std::string scale =
          nodes_.Const(name + "/factors",
                       MakeTensor(weight.recipe.scale, TensorShape({filters}),
                                  nodes_.dtype()));
      filter =
          nodes_.WeightNode(name + "/scaled", "Mul", {filter, scale}, shape)
              ->name();
    }
    if (kernel == merged.kernel) return filter;
    Tensor paddings(tensorflow::DT_INT32, TensorShape({4, 2}));
    auto cells = paddings.matrix<int>();
    cells.setZero();
    cells(0, 0) = part.row;
    cells(0, 1) = merged.kernel[0] - kernel[0] - part.row;
    cells(1, 0) = part.column;
    cells(1, 1) = merged.kernel[1] - kernel[1] - part.column;
    NodeDef* padded = nodes_.WeightNode(
        name + "/padded", "Pad",
        {filter, nodes_.Const(name + "/paddings", paddings)},
        TensorShape({merged.kernel[0], merged.kernel[1], channels, filters}));
    AddNodeAttr("Tpaddings", tensorflow::DT_INT32, padded);
    return padded->name();
  }

  const Partition& partition_;
  const GraphView& view_;
  const ShapeTable& shapes_;
  const LayoutMap& layouts_;
  const Merge& merge_;
  const ImportedOperator& first_;
  const bool channels_first_;
  const std::string name_;
  GraphEditor& editor_;
  NodeWriter nodes_;
};

}  // namespace

void WriteMerges(const Partition& partition, const std::vector<Merge>& merges,
                 GraphEditor* editor) {
  std::vector<MergeWriter> writers;
  writers.reserve(merges.size());
  // All replacements are registered before the first new node is added, because
  // a merged convolution may read the result of another one.
  for (const Merge& merge : merges) {
    writers.emplace_back(partition, merge, editor).ReplaceParts();
  }
  for (MergeWriter& writer : writers) writer.Write();
}

}  // namespace ios::tf

#include "cc/tensorflow/import/context.h"

#include <algorithm>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cc/core/limits.h"
#include "cc/tensorflow/graph/dtypes.h"

namespace ios::tf {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

namespace {

// The key of the payload that every refusal to import a node has. The payload
// is the number of the reason.
constexpr char kReason[] = "ios_tf/reason";

}  // namespace

Result Refuse(Reason reason, absl::string_view text) {
  Result refusal = absl::UnimplementedError(text);
  refusal.SetPayload(
      kReason,
      absl::Cord(absl::string_view(std::to_string(static_cast<int>(reason)))));
  return refusal;
}

Result RefuseShape() {
  return Refuse(Reason::kUnknownShape,
                "the rank, the channels, the size or the type of a tensor is "
                "unknown, or the engine does not support it");
}

Result RefuseVarying(absl::string_view operand) {
  return Refuse(Reason::kOperandNotConstant,
                absl::StrCat(operand, " must be constant"));
}

Reason ReasonOf(const Result& refusal) {
  int number = static_cast<int>(Reason::kPartOfOperator);
  if (const auto payload = refusal.GetPayload(kReason)) {
    CHECK(absl::SimpleAtoi(std::string(*payload), &number));
  }
  return static_cast<Reason>(number);
}

Result ImportContext::Enter(int i) {
  const NodeDef& node = graph_.node(i);
  device_ = placement_.DeviceOf(node);
  if (!placement_.Takes(device_)) {
    return Refuse(Reason::kOtherDevice,
                  absl::StrCat("the node is placed on ", device_,
                               ", not on the device of the conversion"));
  }
  const auto dtype = ToDataType(shapes_.dtype({i, 0}));
  if (!dtype) {
    return Refuse(
        Reason::kDataType,
        absl::StrCat("the engine does not support the data type ",
                     tensorflow::DataTypeString(shapes_.dtype({i, 0}))));
  }
  dtype_ = *dtype;
  TF_RETURN_IF_ERROR(CheckSizes(i));
  const std::string& op = node.op();
  // Casts and transposes have no type or layout of their own: they connect
  // tensors of two types or layouts.
  if (op == "Cast" || op == "Transpose") return absl::OkStatus();
  std::optional<Layout> layout;
  // A mean over rows turns an image, [N,H,W,C], into a sequence, [N,W,C].
  const Shape* result = shapes_.shape({i, 0});
  const bool removes_rows = op == "Mean" && result && result->size() == 4 &&
                            !Attr<bool>(node, "keep_dims", false);
  const bool reshapes = Reshapes(node) || removes_rows;
  const auto fits = [&](TensorRef t) {
    const Shape* shape = shapes_.shape(t);
    if (!shape || shape->size() != 4 || reshapes) return true;
    if (!layout) layout = layouts_.layout(t);
    return *layout == layouts_.layout(t);
  };
  for (size_t k = 0; k < graph_.inputs(i).size(); ++k) {
    const TensorRef t = graph_.Input(i, k);
    if (graph_.constant(t.node) || graph_.variable(t.node)) continue;
    if (!fits(t))
      return Refuse(Reason::kLayout, "the node's tensors differ in layout");
  }
  if (!fits({i, 0}))
    return Refuse(Reason::kLayout, "the node's tensors differ in layout");
  layout_ = layout.value_or(Layout::kChannelsLast);
  const std::string format = Attr<std::string>(node, "data_format", "");
  if (layout && !format.empty() &&
      format != (layout_ == Layout::kChannelsFirst ? "NCHW" : "NHWC")) {
    return Refuse(Reason::kLayout,
                  absl::StrCat("data_format is ", format,
                               ", but the node's tensors have another layout"));
  }
  return absl::OkStatus();
}

Result ImportContext::CheckSizes(int i) const {
  if (device_ == kCpu) return absl::OkStatus();
  std::vector<TensorRef> tensors = graph_.inputs(i);
  tensors.push_back({i, 0});
  for (const TensorRef t : tensors) {
    const Shape* const shape = shapes_.shape(t);
    if (shape && NumElements(*shape) >= kMaxGpuElements) {
      return Refuse(Reason::kTensorSize,
                    absl::StrCat("a tensor of ", NumElements(*shape),
                                 " elements is too large for the engine on a "
                                 "GPU, which supports fewer than ",
                                 kMaxGpuElements));
    }
  }
  return absl::OkStatus();
}

const Shape* ImportContext::InputShape(
    int i, size_t k, std::initializer_list<size_t> ranks) const {
  if (k >= graph_.inputs(i).size() ||
      shapes_.dtype(graph_.Input(i, k)) != shapes_.dtype({i, 0})) {
    return nullptr;
  }
  const TensorRef t = graph_.Input(i, k);
  const Shape* shape = shapes_.shape(t);
  if (!shape || std::count(ranks.begin(), ranks.end(), shape->size()) == 0) {
    return nullptr;
  }
  // Shapes are inferred for several samples of input sizes. A tensor that is
  // empty in a required sample is refused, because a region with an empty
  // tensor cannot be measured. For example, a slice of all images except the
  // first is empty if the batch size is 1.
  for (int sample = 0; sample < shapes_.required_samples(); ++sample) {
    if (NumElements(*shapes_.shape(t, sample)) == 0) return nullptr;
  }
  return shape;
}

const Tensor* ImportContext::Constant(int i, size_t k) const {
  if (k >= graph_.inputs(i).size()) return nullptr;
  return graph_.Constant(graph_.inputs(i)[k]);
}

int ImportContext::FirstOf(int i, const Activation& activation, TensorRef x) {
  return activations_.emplace(std::make_pair(activation, x), i).first->second;
}

ImportedOperator ImportContext::Make(int i, OperatorType type,
                                     std::vector<TensorRef> inputs) const {
  ImportedOperator result =
      Make(i, ImportedOperator::Kind::kOperator, std::move(inputs));
  result.op.type = type;
  return result;
}

ImportedOperator ImportContext::Make(int i, ImportedOperator::Kind kind,
                                     std::vector<TensorRef> inputs) const {
  ImportedOperator result;
  result.kind = kind;
  result.op.name = OperatorName(graph_, i);
  result.dtype = dtype_;
  result.inputs = std::move(inputs);
  result.output = {i, 0};
  result.nodes = {i};
  return result;
}

Result ImportContext::Emit(ImportedOperator op) {
  emitted_.push_back(std::move(op));
  return absl::OkStatus();
}

bool ChangesRank(const NodeDef& node) {
  return node.op() == "StridedSlice" &&
         (Attr<int64_t>(node, "new_axis_mask", 0) ||
          Attr<int64_t>(node, "shrink_axis_mask", 0));
}

bool Reshapes(const NodeDef& node) {
  return node.op() == "Reshape" || node.op() == "Squeeze" ||
         node.op() == "ExpandDims" || ChangesRank(node);
}

std::vector<int64_t> Logical(const std::vector<int64_t>& list, Layout layout,
                             size_t each, int64_t missing) {
  if (layout == Layout::kSequence && list.size() == 3 * each) {
    std::vector<int64_t> result = list;
    result.insert(result.begin() + each, each, missing);
    return result;
  }
  if (layout != Layout::kChannelsFirst || list.size() != 4 * each) {
    return list;
  }
  std::vector<int64_t> result;
  for (size_t d : {0, 2, 3, 1}) {
    result.insert(result.end(), list.begin() + d * each,
                  list.begin() + (d + 1) * each);
  }
  return result;
}

size_t RankOf(const Shape& shape, Layout layout) {
  return shape.size() - (shape.size() == 4 && layout == Layout::kSequence);
}

int64_t LogicalAxis(int64_t axis, const Shape& shape, Layout layout) {
  if (axis < 0) axis += RankOf(shape, layout);
  if (shape.size() != 4 || axis < 1 || axis > 3) return axis;
  switch (layout) {
    case Layout::kChannelsLast:
      return axis;
    case Layout::kChannelsFirst:
      return axis == 1 ? 3 : axis - 1;
    case Layout::kSequence:
      return axis + 1;
  }
  return axis;
}

bool Spatial(const std::vector<int64_t>& of_dimensions, Layout layout,
             std::array<int64_t, 2>* result) {
  const std::vector<int64_t> list = Logical(of_dimensions, layout);
  if (list.size() != 4 || list[0] != 1 || list[3] != 1) return false;
  *result = {list[1], list[2]};
  return std::all_of(result->begin(), result->end(), [](int64_t number) {
    return number >= 1 && number <= kMaxDimension;
  });
}

bool ReadPadding(const NodeDef& node, Layout layout, Padding* padding) {
  const std::string type = Attr<std::string>(node, "padding", "");
  if (type == "SAME") {
    padding->type = PaddingType::kSame;
  } else if (type == "VALID") {
    padding->type = PaddingType::kValid;
  } else {
    const auto pads = Logical(
        Attr<std::vector<int64_t>>(node, "explicit_paddings", {}), layout, 2);
    if (pads.size() != 8 || pads[0] || pads[1] || pads[6] || pads[7]) {
      return false;
    }
    *padding = {PaddingType::kExplicit, pads[2], pads[3], pads[4], pads[5]};
  }
  return true;
}

std::optional<float> Scalar(const Tensor* tensor) {
  if (!tensor || !ToDataType(tensor->dtype()) || tensor->NumElements() != 1) {
    return std::nullopt;
  }
  return Floats(*tensor)[0];
}

std::optional<std::vector<float>> Repeated(const Tensor& tensor,
                                           int64_t channels) {
  std::vector<float> values = Floats(tensor);
  if (values.size() == 1) values.resize(channels, values[0]);
  if (static_cast<int64_t>(values.size()) != channels) return std::nullopt;
  return values;
}

std::optional<std::vector<float>> PerChannel(const Tensor* tensor,
                                             const Shape& x, Layout layout) {
  if (!tensor || !ToDataType(tensor->dtype()) ||
      tensor->dims() > static_cast<int>(RankOf(x, layout))) {
    return std::nullopt;
  }
  if (tensor->NumElements() != 1) {
    const bool first = layout == Layout::kChannelsFirst && x.size() == 4;
    const int channel = tensor->dims() - (first ? 3 : 1);
    if (channel < 0 || tensor->dim_size(channel) != x.back()) {
      return std::nullopt;
    }
  }
  return Repeated(*tensor, x.back());
}

}  // namespace ios::tf

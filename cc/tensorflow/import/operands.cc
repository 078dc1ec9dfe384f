// Operands that handlers read of a node, and operators that they emit.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cc/core/limits.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/layouts.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

std::optional<float> Scalar(const Tensor* tensor) {
  if (!tensor || !ToDataType(tensor->dtype()) || tensor->NumElements() != 1) {
    return std::nullopt;
  }
  return Floats(*tensor)[0];
}

Result Importer::CheckDtype(DataType dtype) const {
  if (dtype != DataType::kFloat32 && device_ == kCpu) {
    return Refuse(
        absl::StrCat("the engine computes ", ToString(dtype), " on GPUs only"));
  }
  return absl::OkStatus();
}

std::vector<int64_t> Importer::Logical(const std::vector<int64_t>& list,
                                       size_t each, int64_t missing) const {
  if (layout_ == Layout::kSequence && list.size() == 3 * each) {
    std::vector<int64_t> result = list;
    result.insert(result.begin() + each, each, missing);
    return result;
  }
  if (layout_ != Layout::kChannelsFirst || list.size() != 4 * each) {
    return list;
  }
  std::vector<int64_t> result;
  for (size_t d : {0, 2, 3, 1}) {
    result.insert(result.end(), list.begin() + d * each,
                  list.begin() + (d + 1) * each);
  }
  return result;
}

size_t Importer::RankOf(const Shape& shape) const {
  return shape.size() - (shape.size() == 4 && layout_ == Layout::kSequence);
}

int64_t Importer::LogicalAxis(int64_t axis, const Shape& shape) const {
  if (axis < 0) axis += RankOf(shape);
  if (shape.size() != 4 || axis < 1 || axis > 3) return axis;
  switch (layout_) {
    case Layout::kChannelsLast:
      return axis;
    case Layout::kChannelsFirst:
      return axis == 1 ? 3 : axis - 1;
    case Layout::kSequence:
      return axis + 1;
  }
  return axis;
}

bool Importer::ChangesRank(const NodeDef& node) {
  return node.op() == "StridedSlice" &&
         (Attr<int64_t>(node, "new_axis_mask", 0) ||
          Attr<int64_t>(node, "shrink_axis_mask", 0));
}

bool Importer::Reshapes(const NodeDef& node) {
  return node.op() == "Reshape" || node.op() == "Squeeze" ||
         node.op() == "ExpandDims" || ChangesRank(node);
}

std::optional<std::vector<float>> Importer::Channels(const Tensor* tensor,
                                                     const Shape& x) const {
  if (!tensor || !ToDataType(tensor->dtype()) || tensor->dims() > 1) {
    return std::nullopt;
  }
  return Repeated(*tensor, x.back());
}

std::optional<std::vector<float>> Importer::PerChannel(const Tensor* tensor,
                                                       const Shape& x) const {
  if (!tensor || !ToDataType(tensor->dtype()) ||
      tensor->dims() > static_cast<int>(RankOf(x))) {
    return std::nullopt;
  }
  if (tensor->NumElements() != 1) {
    const bool first = layout_ == Layout::kChannelsFirst && x.size() == 4;
    const int channel = tensor->dims() - (first ? 3 : 1);
    if (channel < 0 || tensor->dim_size(channel) != x.back()) {
      return std::nullopt;
    }
  }
  return Repeated(*tensor, x.back());
}

std::optional<std::vector<float>> Importer::Repeated(const Tensor& tensor,
                                                     int64_t channels) {
  std::vector<float> values = Floats(tensor);
  if (values.size() == 1) values.resize(channels, values[0]);
  if (static_cast<int64_t>(values.size()) != channels) return std::nullopt;
  return values;
}

const Shape* Importer::InputShape(int i, size_t k,
                                  std::initializer_list<size_t> ranks) {
  if (k >= graph_.inputs(i).size() ||
      graph_.dtype(graph_.Input(i, k)) != graph_.dtype({i, 0})) {
    return nullptr;
  }
  const TensorRef t = graph_.Input(i, k);
  const Shape* shape = graph_.shape(t);
  if (!shape || std::count(ranks.begin(), ranks.end(), shape->size()) == 0) {
    return nullptr;
  }
  // A tensor that is empty for some sizes, such as all images but the first,
  // cannot be measured for those.
  for (int probe = 0; probe < graph_.required_probes(); ++probe) {
    if (NumElements(*graph_.shape(t, probe)) == 0) return nullptr;
  }
  return shape;
}

const Tensor* Importer::Constant(int i, size_t k) {
  if (k >= graph_.inputs(i).size()) return nullptr;
  return graph_.Constant(graph_.inputs(i)[k]);
}

std::optional<std::vector<int64_t>> Importer::FixedIntegers(int i, size_t k) {
  if (const Tensor* constant = Constant(i, k)) return Integers(constant);
  if (k >= graph_.inputs(i).size()) return std::nullopt;
  const TensorRef operand = graph_.inputs(i)[k];
  const std::vector<int64_t>* const example = graph_.integers(operand, 0);
  if (!example) return std::nullopt;
  for (int probe = 1; probe < graph_.probes(); ++probe) {
    if (!graph_.shape({i, 0}, probe)) continue;
    const std::vector<int64_t>* here = graph_.integers(operand, probe);
    if (!here || *here != *example) return std::nullopt;
  }
  return *example;
}

std::optional<std::pair<Weight, Shape>> Importer::Filter(int i, size_t k,
                                                         size_t rank) {
  if (k >= graph_.inputs(i).size()) return std::nullopt;
  const TensorRef input = graph_.Input(i, k);
  const Tensor* const constant = Constant(i, k);
  const Shape* shape = nullptr;
  Shape of_constant;
  if (constant && ToDataType(constant->dtype())) {
    for (int d = 0; d < constant->dims(); ++d) {
      of_constant.push_back(constant->dim_size(d));
    }
    shape = &of_constant;
  } else if (!constant && graph_.variable(input.node)) {
    shape = graph_.shape(input);
  }
  if (!shape || shape->size() != rank || NumElements(*shape) == 0) {
    return std::nullopt;
  }
  return std::make_pair(constant ? Weight(Floats(*constant)) : Weight(input),
                        *shape);
}

int Importer::OnlyConsumer(TensorRef tensor) {
  const std::vector<int>& consumers = graph_.Consumers(tensor);
  return consumers.size() == 1 && !graph_.preserved(tensor.node) ? consumers[0]
                                                                 : -1;
}

ImportedOperator Importer::Make(int i, OperatorType type,
                                std::vector<TensorRef> inputs) {
  ImportedOperator result;
  result.op.name = OperatorName(graph_, i);
  result.op.type = type;
  result.dtype = dtype_;
  result.inputs = std::move(inputs);
  result.output = {i, 0};
  result.nodes = {i};
  return result;
}

Result Importer::Emit(ImportedOperator op) {
  operators_.push_back(std::move(op));
  return absl::OkStatus();
}

Result Importer::EmitScale(int i, TensorRef x, std::vector<float> scale,
                           std::vector<float> shift) {
  ImportedOperator op = Make(i, OperatorType::kScale, {x});
  op.weights = {std::move(scale), std::move(shift)};
  return Emit(std::move(op));
}

bool Importer::Spatial(const std::vector<int64_t>& of_dimensions,
                       std::array<int64_t, 2>* result) const {
  const std::vector<int64_t> list = Logical(of_dimensions);
  if (list.size() != 4 || list[0] != 1 || list[3] != 1) return false;
  *result = {list[1], list[2]};
  return std::all_of(result->begin(), result->end(), [](int64_t number) {
    return number >= 1 && number <= kMaxDimension;
  });
}

}  // namespace ios::tf

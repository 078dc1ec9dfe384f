// Handlers that import TensorFlow's sums, products and scales.
#include "cc/tensorflow/graph/elementwise.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

// The shift of a scale that only multiplies. Adding -0.0 does not change any
// value, whereas adding 0.0 would turn -0.0 into 0.0.
constexpr float kNoShift = -0.0f;

// Emits a scale of data input k. Factors must be finite, because fusion
// multiplies factors with each other. With an infinity or NaN, the result would
// differ from multiplying x by one factor after the other.
Result EmitScale(ImportContext& in, int i, size_t k, std::vector<float> scale,
                 std::vector<float> shift) {
  if (!std::all_of(scale.begin(), scale.end(),
                   [](float factor) { return std::isfinite(factor); })) {
    return Refuse(Reason::kAttribute, "a factor is not a finite number");
  }
  ImportedOperator op = in.Make(i, OperatorType::kScale, {in.Input(i, k)});
  op.weights = {std::move(scale), std::move(shift)};
  return in.Emit(std::move(op));
}

// Returns one value per channel of x. Reads a scalar, or a vector with one
// value per channel.
std::optional<std::vector<float>> Channels(const Tensor* tensor,
                                           const Shape& x) {
  if (!tensor || !ToDataType(tensor->dtype()) || tensor->dims() > 1) {
    return std::nullopt;
  }
  return Repeated(*tensor, x.back());
}

Result BiasAdd(ImportContext& in, int i) {
  const Shape* x = in.InputShape(i, 0, {2, 4});
  if (!x) return RefuseShape();
  auto shift = Channels(in.Constant(i, 1), *x);
  if (!shift)
    return Refuse(Reason::kOperandNotConstant,
                  "the bias is not a constant vector");
  return EmitScale(in, i, 0, std::vector<float>(x->back(), 1.0f),
                   std::move(*shift));
}

Result BatchNorm(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  const Shape* x = in.InputShape(i, 0, {4});
  if (!x || Attr<bool>(node, "is_training", true)) {
    return Refuse(Reason::kTraining,
                  "the node is not a batch norm of images in inference");
  }
  for (int port = 1; port < 6; ++port) {
    if (!in.graph().Consumers({i, port}).empty()) {
      return Refuse(Reason::kStatisticsAreRead,
                    "other nodes read the statistics");
    }
  }
  if (in.graph().preserved(i))
    return Refuse(Reason::kStatisticsAreRead,
                  "a caller may fetch the statistics");
  std::array<std::vector<float>, 4> values;  // gamma, beta, mean, variance
  for (int k = 0; k < 4; ++k) {
    auto value = Channels(in.Constant(i, k + 1), *x);
    if (!value)
      return Refuse(Reason::kOperandNotConstant,
                    "the statistics are not constant");
    values[k] = std::move(*value);
  }
  const float epsilon = Attr<float>(node, "epsilon", 1e-4f);
  std::vector<float> scale(x->back()), shift(x->back());
  for (size_t c = 0; c < scale.size(); ++c) {
    const double s =
        values[0][c] / std::sqrt(static_cast<double>(values[3][c]) + epsilon);
    scale[c] = s;
    shift[c] = values[1][c] - s * values[2][c];
  }
  return EmitScale(in, i, 0, std::move(scale), std::move(shift));
}

Result Negative(ImportContext& in, int i) {
  const Shape* x = in.InputShape(i, 0, {2, 4});
  if (!x) return RefuseShape();
  return EmitScale(in, i, 0, std::vector<float>(x->back(), -1.0f),
                   std::vector<float>(x->back(), kNoShift));
}

Result AddN(ImportContext& in, int i) {
  const size_t inputs = in.graph().inputs(i).size();
  const Shape* x = in.InputShape(i, 0, {2, 4});
  if (!x || inputs < 2) return RefuseShape();
  std::vector<TensorRef> tensors;
  for (size_t k = 0; k < inputs; ++k) {
    if (!in.InputShape(i, k, {2, 4}) ||
        !in.shapes().same_shape(in.Input(i, k), in.Input(i, 0))) {
      return RefuseShape();
    }
    tensors.push_back(in.Input(i, k));
  }
  return in.Emit(in.Make(i, OperatorType::kAdd, std::move(tensors)));
}

// Emits a scale if the node's constant operand `k` has one number, or one per
// channel of x. Otherwise returns false.
bool ScaleOf(ImportContext& in, int i, int k, const Shape& x,
             BinaryFunction function) {
  const auto constant = PerChannel(in.Constant(i, k), x, in.layout());
  if (!constant) return false;
  std::vector<float> scale(x.back(), 1.0f), shift(x.back(), kNoShift);
  for (size_t c = 0; c < scale.size(); ++c) {
    const float value = (*constant)[c];
    switch (function) {
      case BinaryFunction::kMultiply:
        scale[c] = value;
        break;
      case BinaryFunction::kDivide:
        // x / 2 is the scale x * 0.5, but 2 / x is not a scale.
        if (k == 0) return false;
        scale[c] = 1.0f / value;
        break;
      case BinaryFunction::kSubtract:
        scale[c] = k == 0 ? -1.0f : 1.0f;
        shift[c] = k == 0 ? value : -value;
        break;
      case BinaryFunction::kAdd:
        shift[c] = value;
        break;
      default:
        return false;
    }
  }
  return EmitScale(in, i, 1 - k, std::move(scale), std::move(shift)).ok();
}

// Returns the node as an activation if it computes the maximum or minimum of a
// tensor and a number.
std::optional<Activation> BoundOf(const ImportContext& in, const Shape& x,
                                  BinaryFunction function,
                                  const Tensor& constant) {
  const std::optional<float> bound = Scalar(&constant);
  if (!bound || !std::isfinite(*bound) ||
      constant.dims() > static_cast<int>(RankOf(x, in.layout()))) {
    return std::nullopt;
  }
  if (function == BinaryFunction::kMaximum) {
    return Activation(Activation::kMaximum, *bound);
  }
  if (function == BinaryFunction::kMinimum) {
    return Activation(Activation::kMinimum, *bound);
  }
  return std::nullopt;
}

Result BinaryWithConstant(ImportContext& in, int i, int k, const Shape& x,
                          BinaryFunction function, const Tensor& constant) {
  if (!ToDataType(constant.dtype()) || constant.NumElements() == 0 ||
      constant.dims() > static_cast<int>(RankOf(x, in.layout()))) {
    return Refuse(
        Reason::kOperandNotConstant,
        absl::StrCat("the engine does not support a constant operand of type ",
                     tensorflow::DataTypeString(constant.dtype()),
                     " and shape ", constant.shape().DebugString(),
                     " for an input of rank ", RankOf(x, in.layout())));
  }
  ImportedOperator op = in.Make(i, OperatorType::kBinary, {in.Input(i, 1 - k)});
  op.op.function = function;
  op.op.constant_first = k == 0;
  Shape shape(RankOf(x, in.layout()) - constant.dims(), 1);
  for (int d = 0; d < constant.dims(); ++d) {
    shape.push_back(constant.dim_size(d));
  }
  std::vector<float> values = Floats(constant);
  if (in.layout() == Layout::kChannelsFirst && shape.size() == 4) {
    const std::vector<float> first = std::move(values);
    values.clear();
    const int64_t cells = shape[2] * shape[3];
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t cell = 0; cell < cells; ++cell) {
        for (int64_t c = 0; c < shape[1]; ++c) {
          values.push_back(first[(n * shape[1] + c) * cells + cell]);
        }
      }
    }
  }
  op.op.operand = Logical(shape, in.layout(), 1, 1);
  op.weights = {std::move(values)};
  return in.Emit(std::move(op));
}

Result Arithmetic(ImportContext& in, int i) {
  if (Norm(in, i).ok()) return absl::OkStatus();
  const BinaryFunction function =
      BinaryOperations().at(in.graph().node(i).op());
  for (int k : {0, 1}) {
    const Shape* x = in.InputShape(i, 1 - k, {2, 4});
    const Tensor* constant = x ? in.Constant(i, k) : nullptr;
    if (!constant) continue;
    if (ScaleOf(in, i, k, *x, function)) return absl::OkStatus();
    const auto bound = BoundOf(in, *x, function, *constant);
    return bound ? Unary(in, i, *bound, 1 - k)
                 : BinaryWithConstant(in, i, k, *x, function, *constant);
  }
  const Shape* x = in.InputShape(i, 0, {2, 4});
  const Shape* y = in.InputShape(i, 1, {2, 4});
  if (!x || !y || x->size() != y->size()) return RefuseShape();
  const TensorRef a = in.Input(i, 0), b = in.Input(i, 1);
  if (function == BinaryFunction::kAdd && in.shapes().same_shape(a, b)) {
    return in.Emit(in.Make(i, OperatorType::kAdd, {a, b}));
  }
  ImportedOperator op = in.Make(i, OperatorType::kBinary, {a, b});
  op.op.function = function;
  return in.Emit(std::move(op));
}

}  // namespace

HandlerTable ElementwiseHandlers() {
  HandlerTable table = {
      {"BiasAdd", BiasAdd},
      {"FusedBatchNorm", BatchNorm},
      {"FusedBatchNormV2", BatchNorm},
      {"FusedBatchNormV3", BatchNorm},
      {"Neg", Negative},
      {"AddN", AddN},
  };
  for (const auto& [op, function] : BinaryOperations())
    table.emplace(op, Arithmetic);
  return table;
}

}  // namespace ios::tf

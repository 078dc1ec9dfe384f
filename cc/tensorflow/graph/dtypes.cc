#include "cc/tensorflow/graph/dtypes.h"

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"

namespace ios::tf {
namespace {

template <typename Wide, typename T>
std::vector<Wide> Widened(const tensorflow::Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  std::vector<Wide> values(flat.size());
  for (int64_t i = 0; i < flat.size(); ++i) {
    values[i] = static_cast<Wide>(flat(i));
  }
  return values;
}

}  // namespace

std::optional<DataType> ToDataType(tensorflow::DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_FLOAT:
      return DataType::kFloat32;
    case tensorflow::DT_HALF:
      return DataType::kFloat16;
    case tensorflow::DT_BFLOAT16:
      return DataType::kBFloat16;
    default:
      return std::nullopt;
  }
}

tensorflow::DataType ToTensorFlow(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return tensorflow::DT_HALF;
    case DataType::kBFloat16:
      return tensorflow::DT_BFLOAT16;
    case DataType::kFloat32:
      break;
  }
  return tensorflow::DT_FLOAT;
}

std::optional<tensorflow::DataType> OutputType(
    const tensorflow::NodeDef& node) {
  const tensorflow::OpDef* op = nullptr;
  tensorflow::DataType type;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok() ||
      !tensorflow::OutputTypeForNode(node, *op, 0, &type).ok()) {
    return std::nullopt;
  }
  return type;
}

std::vector<float> Floats(const tensorflow::Tensor& tensor) {
  switch (tensor.dtype()) {
    case tensorflow::DT_HALF:
      return Widened<float, Eigen::half>(tensor);
    case tensorflow::DT_BFLOAT16:
      return Widened<float, tensorflow::bfloat16>(tensor);
    default:
      return Widened<float, float>(tensor);
  }
}

std::optional<std::vector<int64_t>> Integers(const tensorflow::Tensor* tensor) {
  // Tensors with more elements are not lists of dimensions.
  constexpr int64_t kLongest = 1024;
  if (!tensor || tensor->NumElements() > kLongest) return std::nullopt;
  switch (tensor->dtype()) {
    case tensorflow::DT_INT32:
      return Widened<int64_t, int32_t>(*tensor);
    case tensorflow::DT_INT64:
      return Widened<int64_t, int64_t>(*tensor);
    default:
      return std::nullopt;
  }
}

tensorflow::Tensor MakeTensor(const std::vector<float>& values,
                              const tensorflow::TensorShape& shape,
                              DataType dtype) {
  tensorflow::Tensor tensor(ToTensorFlow(dtype), shape);
  ConvertFromFloat(values.data(), values.size(), dtype, tensor.data());
  return tensor;
}

}  // namespace ios::tf

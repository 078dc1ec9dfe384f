#include "cc/tensorflow/dtypes.h"

namespace ios::tf {
namespace {

template <typename T>
std::vector<float> Widened(const tensorflow::Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  std::vector<float> values(flat.size());
  for (int64_t i = 0; i < flat.size(); ++i) {
    values[i] = static_cast<float>(flat(i));
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

std::vector<float> Floats(const tensorflow::Tensor& tensor) {
  switch (tensor.dtype()) {
    case tensorflow::DT_HALF:
      return Widened<Eigen::half>(tensor);
    case tensorflow::DT_BFLOAT16:
      return Widened<tensorflow::bfloat16>(tensor);
    default:
      return Widened<float>(tensor);
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

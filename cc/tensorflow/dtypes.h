// Floating-point types of TensorFlow and those of the engine.
#ifndef IOS_TF_CC_TENSORFLOW_DTYPES_H_
#define IOS_TF_CC_TENSORFLOW_DTYPES_H_

#include <optional>
#include <vector>

#include "cc/core/data_type.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace ios::tf {

// None for types the engine does not have.
std::optional<DataType> ToDataType(tensorflow::DataType dtype);
tensorflow::DataType ToTensorFlow(DataType dtype);

// The values of a tensor of such a type.
std::vector<float> Floats(const tensorflow::Tensor& tensor);
// A tensor of `dtype` with these values, rounded.
tensorflow::Tensor MakeTensor(const std::vector<float>& values,
                              const tensorflow::TensorShape& shape,
                              DataType dtype);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_DTYPES_H_

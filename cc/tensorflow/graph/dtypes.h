// Tensors of TensorFlow: their types as the engine's, and their values.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_DTYPES_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_DTYPES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/core/ir/data_type.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace ios::tf {

// None for types the engine does not have.
std::optional<DataType> ToDataType(tensorflow::DataType dtype);
tensorflow::DataType ToTensorFlow(DataType dtype);

// The type of the first output of a node; none for ops that are not registered.
std::optional<tensorflow::DataType> OutputType(const tensorflow::NodeDef& node);

// The values of a tensor of such a type.
std::vector<float> Floats(const tensorflow::Tensor& tensor);
// The values of an int32 or int64 tensor; none for null, for other types and
// for more than dimensions and their numbers are.
std::optional<std::vector<int64_t>> Integers(const tensorflow::Tensor* tensor);
// A tensor of `dtype` with these values, rounded.
tensorflow::Tensor MakeTensor(const std::vector<float>& values,
                              const tensorflow::TensorShape& shape,
                              DataType dtype);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_DTYPES_H_

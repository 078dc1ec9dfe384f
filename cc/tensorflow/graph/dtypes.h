// Converts data types and tensor values between TensorFlow and the engine.
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

// ToDataType() returns nullopt for types that the engine does not support.
std::optional<DataType> ToDataType(tensorflow::DataType dtype);
tensorflow::DataType ToTensorFlow(DataType dtype);

// Returns the type of a node's first output, or nullopt if its operation is not
// registered.
std::optional<tensorflow::DataType> OutputType(const tensorflow::NodeDef& node);

// Returns the values of a tensor of a type that the engine supports.
std::vector<float> Floats(const tensorflow::Tensor& tensor);
// Returns the values of an int32 or int64 tensor. Returns nullopt for null, for
// other types, and for tensors with too many elements to be a list of
// dimensions.
std::optional<std::vector<int64_t>> Integers(const tensorflow::Tensor* tensor);
// Returns a tensor with these values, rounded to `dtype`.
tensorflow::Tensor MakeTensor(const std::vector<float>& values,
                              const tensorflow::TensorShape& shape,
                              DataType dtype);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_DTYPES_H_

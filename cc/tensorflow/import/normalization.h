// Layer and group norms: arithmetic on moments that is one operator.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_NORMALIZATION_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_NORMALIZATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"
#include "tensorflow/core/framework/tensor.h"

namespace ios::tf {

// (x - mean) / sqrt(variance + epsilon) * scale + shift, as Keras writes it and
// tf.nn.batch_normalization does; or by hand, mostly without scale and shift,
// which are operators of their own then.
struct Normalization {
  TensorRef x;
  std::vector<int64_t> axes;  // of the moments, as the graph has them, sorted
  float epsilon = 0.0f;
  const tensorflow::Tensor* scale = nullptr;  // null: 1
  const tensorflow::Tensor* shift = nullptr;  // null: 0
  std::vector<int> nodes;
};

// That which ends with `node`, which adds, multiplies or divides two tensors.
std::optional<Normalization> MatchNormalization(GraphIndex* graph, int node);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_NORMALIZATION_H_

// Finds layer and group norms, which graphs write as arithmetic on means and
// variances.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_NORMALIZATION_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_NORMALIZATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/tensorflow/shapes/analyzed_graph.h"
#include "tensorflow/core/framework/tensor.h"

namespace ios::tf {

// A norm (x - mean) / sqrt(variance + epsilon) * scale + shift, in the form
// that Keras and tf.nn.batch_normalization write. Most norms that users write
// themselves match, too, but without scale and shift (null here), which
// separate operators apply.
struct MatchedNorm {
  TensorRef x;
  std::vector<int64_t> axes;  // of the moments, in the graph's layout, sorted
  float epsilon = 0.0f;
  const tensorflow::Tensor* scale = nullptr;  // null: 1
  const tensorflow::Tensor* shift = nullptr;  // null: 0
  std::vector<int> nodes;
};

// Returns the norm that ends with `node`, or nullopt. `node` must add, multiply
// or divide two tensors.
std::optional<MatchedNorm> MatchNormalization(AnalyzedGraph* analyzed,
                                              int node);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_NORMALIZATION_H_

// Infers the types and shapes of all tensors of a graph for one sample.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_INFERENCE_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_INFERENCE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/core/ir/block.h"
#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/placeholder_sizes.h"
#include "cc/tensorflow/shapes/size_bounds.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// The shapes of a graph's outputs, by node and port: of tensors that have a
// floating-point type and known dimensions. A sequence has the height 1.
using OutputShapes = std::vector<std::vector<std::optional<Shape>>>;

// Returns null if the shape of the tensor is unknown.
const Shape* FindShape(const OutputShapes& shapes, TensorRef tensor);

// The properties of a graph's outputs that all samples share, by node and port.
struct OutputTypes {
  std::vector<std::vector<tensorflow::DataType>> dtypes;
  std::vector<std::vector<bool>> sequences;  // whether the rank is 3

  tensorflow::DataType dtype(TensorRef tensor) const;
  bool IsSequence(TensorRef tensor) const;
};

// The shapes of one sample.
struct SampleShapes {
  OutputShapes shapes;
  // The elements of integer tensors that CompleteShapes() evaluated.
  std::map<TensorRef, std::vector<int64_t>> integers;
  BoundDistances bounds;
  bool depends_on_values = false;  // some dimension is a placeholder
  bool has_zero_batch = false;     // some tensor has no images
};

// `item` has the nodes of `view`, with the sizes of one sample and without
// weights. Sets `types` if `placeholder` is for the example, and otherwise
// reads `types`.
absl::StatusOr<SampleShapes> InferSampleShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    const PlaceholderSizes& placeholder, OutputTypes* types);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_INFERENCE_H_

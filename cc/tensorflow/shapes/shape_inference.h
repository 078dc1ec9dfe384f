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

// The shapes of all nodes' outputs, indexed by node and port. A shape is
// missing if the tensor's type is not a floating-point type or a dimension is
// unknown. A sequence has the height 1.
using OutputShapes = std::vector<std::vector<std::optional<Shape>>>;

// Returns null if the shape of the tensor is unknown.
const Shape* FindShape(const OutputShapes& shapes, TensorRef tensor);

// Properties of all nodes' outputs that do not depend on the sample, indexed by
// node and port.
struct OutputTypes {
  std::vector<std::vector<tensorflow::DataType>> dtypes;
  std::vector<std::vector<bool>> sequences;  // whether the rank is 3

  tensorflow::DataType dtype(TensorRef tensor) const;
  bool IsSequence(TensorRef tensor) const;
};

// The shapes that tensors have in one shape sample.
struct SampleShapes {
  OutputShapes shapes;
  // The elements of integer tensors that CompleteShapes() evaluated.
  std::map<TensorRef, std::vector<int64_t>> integers;
  BoundDistances bounds;
  bool depends_on_values = false;  // some dimension is a placeholder
  bool has_zero_batch = false;     // some tensor has no images
};

// Infers the shapes of one sample. `item` has the nodes of `view`, with the
// sizes of this sample and without weights. For the example, writes `types`;
// for other samples, reads it.
absl::StatusOr<SampleShapes> InferSampleShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    const PlaceholderSizes& placeholder, OutputTypes* types);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_INFERENCE_H_

// InferGraphShapes: infers the shapes of a graph's tensors for several samples
// of the sizes of the graph's inputs.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_INFERRED_SHAPES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_INFERRED_SHAPES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/shape_inference.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// The shapes in all samples. ShapeTable documents the members.
struct InferredShapes {
  ShapeSample example;
  OutputTypes types;
  std::vector<SampleShapes> samples;
  int required_samples = 0;
  std::optional<ImageSize> fitting_sizes;
  std::vector<ShapeSample> bound_samples;
};

// See ShapeTable::Create for the arguments. The results for the latest graphs
// are remembered, because a conversion analyzes equal graphs several times, as
// TensorFlow does when it loads a model. Thread-safe.
absl::StatusOr<InferredShapes> InferGraphShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    int64_t batch_size, const ImageSize& image_size);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_INFERRED_SHAPES_H_

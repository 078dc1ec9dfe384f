// Infers the shapes of a graph for inputs without images and for inputs without
// pixels.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_ZERO_BATCH_SHAPES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_ZERO_BATCH_SHAPES_H_

#include <vector>

#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/shape_inference.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// Returns the shapes for `example` without images and for `example` without
// pixels, except those that TensorFlow rejects. `types` has the types of the
// sample `example`.
std::vector<OutputShapes> InferZeroBatchShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    const ShapeSample& example, OutputTypes types);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_ZERO_BATCH_SHAPES_H_

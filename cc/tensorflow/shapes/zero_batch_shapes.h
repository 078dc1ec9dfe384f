// Infers the shapes of a graph's tensors for a batch of 0 images, and for
// images whose height and width are 0.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_ZERO_BATCH_SHAPES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_ZERO_BATCH_SHAPES_H_

#include <vector>

#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/shape_inference.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// Changes the sample `example` in two ways, and infers the shapes for each: in
// the first, the batch size is 0; in the second, height and width are 0. If
// TensorFlow rejects one of these samples, the result lacks its shapes. `types`
// are the tensors' types in `example`.
std::vector<OutputShapes> InferZeroBatchShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    const ShapeSample& example, OutputTypes types);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_ZERO_BATCH_SHAPES_H_

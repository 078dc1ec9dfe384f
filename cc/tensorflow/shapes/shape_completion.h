// Infers shapes that TensorFlow's graph optimizers leave unknown although the
// graph computes them from known shapes. An example is a Reshape or resize
// whose size is Pack(Shape(x)[0], 2 * ...).
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_COMPLETION_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_COMPLETION_H_

#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/output_properties.h"
#include "cc/tensorflow/shapes/placeholder_sizes.h"
#include "cc/tensorflow/shapes/size_bounds.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// Completes `outputs` by evaluating the graph's arithmetic on shapes: the
// shapes, and the values of tensors that say how much is padded or cropped.
// `graph` has the nodes of `view`, with the sizes of one sample and without
// weights. Images and sequences of which only the channels are known get
// `placeholder` sizes; returns the number of these tensors. Stores the
// distances of the shapes from all bounds (see size_bounds.h) in `bounds`.
int CompleteShapes(const GraphView& view, const tensorflow::GraphDef& graph,
                   const PlaceholderSizes& placeholder,
                   OutputProperties* outputs, BoundDistances* bounds);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_COMPLETION_H_

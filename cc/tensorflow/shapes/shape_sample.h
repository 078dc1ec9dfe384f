// ShapeSample: sizes of a graph's inputs for which the shapes of all tensors
// are inferred. Only several samples together show whether a dimension is
// fixed.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLE_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLE_H_

#include <array>
#include <cstdint>

#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// A height and a width.
using ImageSize = std::array<int64_t, 2>;
// The image size that most networks are designed for.
inline constexpr ImageSize kUsualImageSize = {224, 224};

// Sizes in place of the unknown dimensions of the graph's inputs.
struct ShapeSample {
  int64_t batch = 1;
  ImageSize sizes = {1, 1};  // height and width, for the other dimensions
  // If TensorFlow cannot infer a shape in an optional sample, the sample says
  // nothing about that shape.
  bool optional = false;
  // Sizes of all inputs except the first; 0 means the same as the first.
  int64_t next_batch = 0;
  ImageSize next_sizes = {0, 0};
};

// Returns the declared shape of a graph input with at least one dimension, or
// null.
const tensorflow::TensorShapeProto* InputShape(const tensorflow::NodeDef& node);

// Sets the sizes of the inputs of `graph` to a sample's sizes in `sized`, a
// copy of `graph` whose other nodes may differ.
void SetInputSizes(const tensorflow::GraphDef& graph, const ShapeSample& sample,
                   tensorflow::GraphDef* sized);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLE_H_

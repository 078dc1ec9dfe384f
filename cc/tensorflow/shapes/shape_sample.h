// ShapeSample: values for the unknown sizes of a graph's inputs, for which the
// shapes of all tensors are then inferred. Comparing several samples shows
// which dimensions are fixed. The first sample, the example, has the requested
// sizes, unless the graph does not accept them.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLE_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLE_H_

#include <array>
#include <cstdint>

#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// {height, width} in pixels.
using ImageSize = std::array<int64_t, 2>;
// The image size that most networks are designed for.
inline constexpr ImageSize kUsualImageSize = {224, 224};

// Sizes in place of the unknown dimensions of the graph's inputs.
struct ShapeSample {
  int64_t batch = 1;
  ImageSize sizes = {1, 1};  // height and width, for the other dimensions
  // In an optional sample, TensorFlow may be unable to infer some shapes (for
  // example, because an image is too small). The sample is then ignored for
  // these shapes.
  bool optional = false;
  // The sizes of all inputs except the first. 0 means the size of the first
  // input.
  int64_t next_batch = 0;
  ImageSize next_sizes = {0, 0};
};

// Returns the declared shape of a graph input with at least one dimension, or
// null.
const tensorflow::TensorShapeProto* InputShape(const tensorflow::NodeDef& node);

// Replaces the unknown dimensions of an input's shape by the sample's sizes.
// The leading dimension is the batch size. If two other dimensions are unknown,
// they are the height and the width.
tensorflow::TensorShapeProto WithSample(tensorflow::TensorShapeProto shape,
                                        const ShapeSample& sample,
                                        bool first_input);

// Sets the unknown sizes of the inputs in `sized` to those of the sample.
// `sized` is a copy of `graph`, except that nodes which are not inputs may
// differ.
void SetInputSizes(const tensorflow::GraphDef& graph, const ShapeSample& sample,
                   tensorflow::GraphDef* sized);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLE_H_

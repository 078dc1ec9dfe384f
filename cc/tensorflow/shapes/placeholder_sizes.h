// PlaceholderSizes: sizes for dimensions that depend on the values of inputs
// (not on their sizes), such as the height of a crop.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_PLACEHOLDER_SIZES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_PLACEHOLDER_SIZES_H_

#include <cstdint>

#include "cc/tensorflow/shapes/shape_sample.h"

namespace ios::tf {

// The sizes for one shape sample. In required samples other than the example
// (see ShapeSample), each tensor gets different sizes. Otherwise, two tensors
// would seem to always have the same size.
struct PlaceholderSizes {
  bool example = true;
  int64_t batch = 1;
  ImageSize sizes = {1, 1};
  int64_t step = 0;  // between the sizes of one tensor and the next
  // Replaces a leading dimension of 0 by this number of images, because nothing
  // can be measured without images. An example is `x[1:]` if `x` has one image.
  // If 0, nothing is replaced.
  int64_t zero_batch = 0;
  // If false, dimensions that depend on values stay unknown.
  bool fill_unknown = true;

  // Returns the size for an unknown leading dimension. `unknown` is Grappler's
  // number for it: unknown dimensions are -2, -3, …, and equal numbers mean
  // equal dimensions.
  int64_t Batch(int64_t unknown) const {
    return example ? batch : 1000 - unknown;
  }
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_PLACEHOLDER_SIZES_H_

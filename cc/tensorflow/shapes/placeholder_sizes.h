// PlaceholderSizes: sizes for dimensions that depend on values, such as those
// of a crop.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_PLACEHOLDER_SIZES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_PLACEHOLDER_SIZES_H_

#include <cstdint>

#include "cc/tensorflow/shapes/shape_sample.h"

namespace ios::tf {

// Samples other than the example can give each tensor different sizes, so that
// accidental equality is not mistaken for a rule.
struct PlaceholderSizes {
  bool example = true;
  int64_t batch = 1;
  ImageSize sizes = {1, 1};
  int64_t step = 0;  // between the sizes of one tensor and the next
  // The number of images that replaces a leading dimension of 0, because
  // nothing can be measured without images. An example is the batch of `x[1:]`
  // if `x` has one image. 0: do not replace.
  int64_t zero_batch = 0;
  // If false, dimensions that depend on values stay unknown.
  bool fill_unknown = true;

  // Returns the size for an unknown leading dimension. Grappler numbers these
  // from -2 downwards; equal numbers mean equal dimensions.
  int64_t Batch(int64_t unknown) const {
    return example ? batch : 1000 - unknown;
  }
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_PLACEHOLDER_SIZES_H_

// Finds the image size that a graph's constants require. For example, constant
// position embeddings of 20x20 fit only one image size.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_FITTING_SIZES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_FITTING_SIZES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "cc/tensorflow/shapes/shape_sampler.h"

namespace ios::tf {

// Returns whether some node has operands whose shapes do not match in the first
// sample.
bool HasMisfits(const ShapeSampler& sampler);

// Returns an image size for which the operands of every node have matching
// shapes, or nullopt if no such size was found. Call this if HasMisfits().
// Removes all samples from `sampler`.
absl::StatusOr<std::optional<ImageSize>> FindFittingSizes(
    const ShapeSample& example, ShapeSampler* sampler);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_FITTING_SIZES_H_

// Finds the image size that a graph's constants require. Position embeddings of
// 20x20, for example, fit images of only one size.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_FITTING_SIZES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_FITTING_SIZES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "cc/tensorflow/shapes/shape_sampler.h"

namespace ios::tf {

// Returns whether operands of some node do not fit each other in the example.
bool HasMisfits(const ShapeSampler& sampler);

// Returns the image size for which operands of the graph fit each other
// although those of the example do not. Returns nullopt if none was found.
// Clears the sampler.
absl::StatusOr<std::optional<ImageSize>> FindFittingSizes(
    const ShapeSample& example, ShapeSampler* sampler);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_FITTING_SIZES_H_

// Chooses samples on both sides of each bound (size_bounds.h), by secants and
// bisection along lines of samples that differ in one size.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_BOUND_SAMPLES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_BOUND_SAMPLES_H_

#include <vector>

#include "cc/tensorflow/shapes/shape_sample.h"
#include "cc/tensorflow/shapes/shape_sampler.h"
#include "cc/tensorflow/shapes/usual_samples.h"

namespace ios::tf {

// Adds samples to `sampler` until there are samples on both sides of all
// bounds: copies of `example` with another batch or image size. Returns those
// next to the bounds. Forgets shapes behind bounds that need too many samples.
std::vector<ShapeSample> AddBoundSamples(const ShapeSample& example,
                                         const VaryingSizes& varying,
                                         ShapeSampler* sampler);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_BOUND_SAMPLES_H_

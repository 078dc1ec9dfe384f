// Chooses shape samples on both sides of each bound (see size_bounds.h). A
// search by secants and bisection varies one size (the batch, height or width)
// at a time.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_BOUND_SAMPLES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_BOUND_SAMPLES_H_

#include <vector>

#include "cc/tensorflow/shapes/shape_sample.h"
#include "cc/tensorflow/shapes/shape_sampler.h"
#include "cc/tensorflow/shapes/usual_samples.h"

namespace ios::tf {

// Adds copies of `example` with another batch or image size to `sampler`, until
// samples are on both sides of all bounds. Returns the samples next to the
// bounds. If a bound needs too many samples, shapes that depend on it become
// unknown.
std::vector<ShapeSample> AddBoundSamples(const ShapeSample& example,
                                         const VaryingSizes& varying,
                                         ShapeSampler* sampler);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_BOUND_SAMPLES_H_

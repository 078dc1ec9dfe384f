// Inlining of the calls that hide convolutions: Keras wraps a grouped
// convolution in a function that XLA must compile, because TensorFlow on the
// CPU once had none, and such calls are inlined by nobody.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_

#include "absl/status/statusor.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// Inlines calls that XLA must compile if their functions only convolve; returns
// how many. The call's node becomes an Identity of the result.
absl::StatusOr<int> InlineConvolutionCalls(
    tensorflow::grappler::GrapplerItem* item);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_

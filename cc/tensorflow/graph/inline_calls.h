// Inlines function calls that hide convolutions. Keras wraps a grouped
// convolution in a function that XLA must compile, because TensorFlow once had
// no grouped convolutions on the CPU. No other pass inlines such calls.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_

#include "absl/status/statusor.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// Inlines a call that XLA must compile if its function only computes a
// convolution. The call's node becomes an Identity of the result. Returns the
// number of inlined calls.
absl::StatusOr<int> InlineConvolutionCalls(
    tensorflow::grappler::GrapplerItem* item);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_

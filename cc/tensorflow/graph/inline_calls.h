// Inlines function calls that hide convolutions. Keras calls a function with
// the attribute _XlaMustCompile to compute a grouped convolution, because
// TensorFlow once had no grouped convolutions on the CPU. No other pass inlines
// such calls.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_

#include "absl/status/statusor.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// Inlines each call that has the attribute _XlaMustCompile and whose function
// contains only convolutions (Conv2D), constants and identities. The node of
// the call becomes an Identity of the function's result. Returns the number of
// inlined calls.
absl::StatusOr<int> InlineConvolutionCalls(
    tensorflow::grappler::GrapplerItem* item);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_INLINE_CALLS_H_

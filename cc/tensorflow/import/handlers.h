// Handlers: functions that turn nodes of one operation into operators. Each
// family of handlers has its own source file, which ends with the family's
// table.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_

#include <optional>
#include <string>
#include <unordered_map>

#include "cc/tensorflow/import/context.h"

namespace ios::tf {

using Handler = Result (*)(ImportContext& in, int i);
// Handlers, keyed by the name of TensorFlow's operation.
using HandlerTable = std::unordered_map<std::string, Handler>;

HandlerTable ActivationHandlers();
HandlerTable ConvolutionHandlers();
HandlerTable ElementwiseHandlers();
HandlerTable PartHandlers();
HandlerTable PoolHandlers();
HandlerTable ResizeHandlers();

// The functions below are used by several of these families of handlers.

// Returns the activation that operation `op` computes, or nullopt. `node` has
// this operation, or is a fused node with this operation as a part
// (activations.cc).
std::optional<Activation> ActivationOf(const std::string& op,
                                       const tensorflow::NodeDef& node);
// Emits an operator that applies an activation to data input k.
Result Unary(ImportContext& in, int i, const Activation& activation,
             size_t k = 0);

// The following functions recognise norms, which graphs write as arithmetic
// that may end with a Reshape (norms.cc).

// Emits a norm that normalizes each pixel, each image, or each channel of an
// image by its own mean and variance.
Result Norm(ImportContext& in, int i);
// Emits a group norm of [N,H,W,C]. The graph reshapes to
// [N,H,W,groups,C/groups] or [N,H*W,groups,C/groups], and computes a norm with
// the mean and variance of each group of an image. Node `i` is the Reshape back
// to [N,H,W,C].
Result GroupNorm(ImportContext& in, int i);
// Emits a channel shuffle of [N,H,W,C]. The graph reshapes to
// [N,H,W,groups,C/groups] and exchanges the last two dimensions. Node `i` is
// the Reshape back to [N,H,W,C].
Result ChannelShuffle(ImportContext& in, int i);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_

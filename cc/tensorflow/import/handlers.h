// Handlers: what makes operators of a kind of node. They are free functions,
// by family, in the files of those names, each of which ends with its table.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_

#include <optional>
#include <string>
#include <unordered_map>

#include "cc/tensorflow/import/context.h"

namespace ios::tf {

using Handler = Result (*)(ImportContext& in, int i);
// By TensorFlow's name of the operation.
using HandlerTable = std::unordered_map<std::string, Handler>;

HandlerTable ActivationHandlers();
HandlerTable ConvolutionHandlers();
HandlerTable ElementwiseHandlers();
HandlerTable PartHandlers();
HandlerTable PoolHandlers();
HandlerTable ResizeHandlers();

// Other families ask for these.

// The activation that a node, or a part of a fused one, is by its operation's
// name (activations.cc).
std::optional<Activation> ActivationOf(const std::string& op,
                                       const tensorflow::NodeDef& node);
// An activation of input k.
Result Unary(ImportContext& in, int i, const Activation& activation,
             size_t k = 0);

// Norms are arithmetic, or end with a Reshape (norms.cc).

// With the mean and variance of each pixel, image, or channel of an image.
Result Norm(ImportContext& in, int i);
// [N,H,W,C], as [N,H,W,groups,C/groups] or [N,H*W,groups,C/groups], with the
// mean and variance of each image's groups, and back by Reshape `i`.
Result GroupNorm(ImportContext& in, int i);
// [N,H,W,C], as [N,H,W,groups,C/groups], with these two exchanged, and back
// by Reshape `i`.
Result ChannelShuffle(ImportContext& in, int i);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_

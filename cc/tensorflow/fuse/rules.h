// Fusion rules. Each rule looks at operator `i` and returns whether it changed
// the graph. The rules are in the order of kRules.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_

#include <array>
#include <cstdint>

#include "cc/tensorflow/fuse/operator_graph.h"

namespace ios::tf {

// Strides of 1, or a 1x1 kernel.
inline constexpr std::array<int64_t, 2> kOne = {1, 1};

// Makes the operators behind a change of layout read the tensor before the
// change, because layouts only matter outside of regions. A Transpose that
// other nodes read as well stays a node of the graph. Of several changes in a
// row, the last one is absorbed first, because it decides whether those before
// it stay.
bool AbsorbLayout(OperatorGraph& ops, int i);
// Makes an operator that reads a tensor only for its size read an earlier
// tensor of the same size. Otherwise that read would keep a convolution from
// absorbing its bias.
bool MoveReference(OperatorGraph& ops, int i);
// Joins two operators in a row that repeat pixels, such as one for each
// dimension.
bool ComposeRepeats(OperatorGraph& ops, int i);
// Drops an operator that spreads a pixel over an image, or a channel over
// several, if its readers can broadcast that pixel or channel.
bool DropSpread(OperatorGraph& ops, int i);
// Drops an operator whose output only nodes inside other operators read.
bool DropUnread(OperatorGraph& ops, int i);
bool DropIdentityScale(OperatorGraph& ops, int i);
// Replaces the largest composition that ends here and is an activation. Graphs
// write gelu, swish, mish, hard_sigmoid and others as several operators.
bool FuseActivation(OperatorGraph& ops, int i);
// Replaces a composition that is a PReLU with a constant per channel or per
// pixel.
bool FusePRelu(OperatorGraph& ops, int i);
// Joins two scales in a row, or a norm and the scale after it.
bool ComposeScales(OperatorGraph& ops, int i);
// Drops the Casts around batch norms and means of half-precision tensors. Keras
// computes these in float32, but the engine computes in float32 inside of every
// operator anyway.
bool AbsorbCasts(OperatorGraph& ops, int i);
// Drops two Reshapes, from [N,H,W,C] to a list of pixels and back, around
// operators that compute each pixel by itself. Keras computes Dense of
// [N,H,W,C] this way: the MatMul becomes a 1x1 convolution.
bool KeepMaps(OperatorGraph& ops, int i);
// Drops a Reshape from [N,C] to [N,1,1,C] if all operators from the global
// poolings to the Reshape can compute [N,1,1,C]. An example is
// squeeze-and-excite with Dense, which reads one pooling or the sum of several
// poolings.
bool KeepDims(OperatorGraph& ops, int i);
// Makes a MatMul of flattened feature maps read the maps themselves.
bool FlattenIntoMatMul(OperatorGraph& ops, int i);
// Joins two operators in a row that add zeros or cut pixels off.
bool ComposePads(OperatorGraph& ops, int i);
// Folds an average pooling with a 1x1 window, which only skips pixels. The
// convolution or padding before the pooling, or the 1x1 convolutions after it,
// can skip these pixels by their strides.
bool FoldSubsampling(OperatorGraph& ops, int i);
// Joins a depthwise convolution and the 1x1 convolution that is its only
// reader.
bool FuseSepConv(OperatorGraph& ops, int i);
// Folds batch norm and bias into the weights.
bool FoldScale(OperatorGraph& ops, int i);
// Folds an addition into a convolution if the convolution depends on the other
// operand anyway. Such a fusion does not keep anything from running in
// parallel.
bool FoldResidual(OperatorGraph& ops, int i);
bool FoldActivation(OperatorGraph& ops, int i);
// Turns zeros around the input into the readers' own padding.
bool FoldPad(OperatorGraph& ops, int i);
// Folds a Relu into the SepConvs that read it, if it has no other readers.
bool FoldPreActivation(OperatorGraph& ops, int i);
// Joins a concat of concats, or a sum of sums.
bool Flatten(OperatorGraph& ops, int i);
// Turns a Reshape from [N,1,1,C] to [N,C] between operators into a pooling of
// one pixel. Elsewhere TensorFlow's Reshape stays, because it does not copy
// anything.
bool FinishReshape(OperatorGraph& ops, int i);
// Gives paddings of the same effect the same form, so that equal blocks have
// equal signatures and convolutions that may merge are recognised. For example,
// with stride 1, SAME is an explicit padding that does not depend on the size
// of the image: the window's extent - 1 pixels, half of them before the image.
bool NormalisePadding(OperatorGraph& ops, int i);

using Rule = bool (*)(OperatorGraph&, int);

// Each rule is applied to all operators, in order, until it applies nowhere.
inline constexpr Rule kRules[] = {
    // This rule is first because no other rule looks through a change of
    // layout.
    AbsorbLayout,
    MoveReference,
    ComposeRepeats,
    DropSpread,
    // Composite activations first: their additions and multiplications would
    // otherwise fold into convolutions.
    DropUnread,
    DropIdentityScale,
    FuseActivation,
    FusePRelu,
    ComposeScales,
    AbsorbCasts,
    KeepMaps,
    KeepDims,
    FlattenIntoMatMul,
    ComposePads,
    FoldSubsampling,
    FuseSepConv,
    FoldScale,
    FoldResidual,
    FoldActivation,
    FoldPad,
    FoldPreActivation,
    Flatten,
    FinishReshape,
    // This rule is last because FoldPad still changes paddings.
    NormalisePadding,
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_

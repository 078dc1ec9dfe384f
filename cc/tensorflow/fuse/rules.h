// Fusion rules. Each rule looks at operator `i` and returns whether it changed
// the graph. This file declares the rules in the order of kRules.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_

#include <array>
#include <cstdint>

#include "cc/tensorflow/fuse/operator_graph.h"

namespace ios::tf {

// The strides {1, 1} or the kernel size {1, 1}.
inline constexpr std::array<int64_t, 2> kOne = {1, 1};

// Makes the operators after a change of layout (a Transpose) read the tensor
// before it, because layouts only matter outside of regions. A Transpose that
// other nodes read as well stays a node of the graph. If several Transposes
// follow each other, the last one is absorbed first, because it decides whether
// the graph still needs the earlier ones.
bool AbsorbLayout(OperatorGraph& ops, int i);
// Some operators read a tensor only for its size. Makes such an operator read
// an earlier tensor of the same size. Otherwise a convolution could not absorb
// its bias, because two operators read the convolution's output.
bool MoveReference(OperatorGraph& ops, int i);
// Joins two consecutive operators that repeat pixels, for example one that
// repeats rows and one that repeats columns.
bool ComposeRepeats(OperatorGraph& ops, int i);
// Drops an operator that repeats one pixel over an image, or one channel over
// several channels, if all of its readers can broadcast that pixel or channel.
bool DropSpread(OperatorGraph& ops, int i);
// Drops an operator if only nodes that have become parts of other operators
// read its output.
bool DropUnread(OperatorGraph& ops, int i);
bool DropIdentityScale(OperatorGraph& ops, int i);
// Replaces the largest composition that ends with operator `i` and computes an
// activation. Graphs write gelu, swish, mish, hard_sigmoid and others as
// several operators.
bool FuseActivation(OperatorGraph& ops, int i);
// Replaces a composition that is a PReLU with a constant per channel or per
// pixel.
bool FusePRelu(OperatorGraph& ops, int i);
// Joins two consecutive scales, or a norm and the scale after it.
bool ComposeScales(OperatorGraph& ops, int i);
// Drops the Casts around batch norms and means of half-precision tensors. Keras
// computes these in float32, but the engine computes in float32 inside of every
// operator anyway.
bool AbsorbCasts(OperatorGraph& ops, int i);
// Drops a Reshape from [N,H,W,C] to a list of pixels and the Reshape back to
// [N,H,W,C], if the operators between them compute each pixel by itself. Keras
// applies Dense to [N,H,W,C] in this form. The MatMul becomes a 1x1
// convolution.
bool KeepMaps(OperatorGraph& ops, int i);
// Drops a Reshape from [N,C] to [N,1,1,C] if all operators between it and the
// preceding global poolings can also compute with [N,1,1,C]. An example is
// squeeze-and-excite with Dense layers, which read one pooling or the sum of
// several poolings.
bool KeepDims(OperatorGraph& ops, int i);
// Makes a MatMul that reads flattened feature maps read the maps themselves.
bool FlattenIntoMatMul(OperatorGraph& ops, int i);
// Joins two consecutive operators that add zeros around an image or cut pixels
// off.
bool ComposePads(OperatorGraph& ops, int i);
// Folds an average pooling with a 1x1 window, which only skips pixels, into the
// convolution or padding before it, or into the 1x1 convolutions after it. The
// convolutions then skip the pixels by their strides.
bool FoldSubsampling(OperatorGraph& ops, int i);
// Joins a depthwise convolution and the 1x1 convolution that is its only
// reader.
bool FuseSepConv(OperatorGraph& ops, int i);
// Folds batch norm and bias into the weights.
bool FoldScale(OperatorGraph& ops, int i);
// Folds an addition into the convolution that computes one operand, as its
// residual, if the convolution depends on the other operand anyway. Then the
// fusion adds no new dependency that would prevent operators from running in
// parallel.
bool FoldResidual(OperatorGraph& ops, int i);
bool FoldActivation(OperatorGraph& ops, int i);
// Folds a Pad that adds zeros into the padding of the operators that read its
// output.
bool FoldPad(OperatorGraph& ops, int i);
// Folds a Relu into the SepConvs that read it, if it has no other readers.
bool FoldPreActivation(OperatorGraph& ops, int i);
// Turns a concat of concats into one concat, and a sum of sums into one sum.
bool Flatten(OperatorGraph& ops, int i);
// Turns a Reshape from [N,1,1,C] to [N,C] between two operators into a global
// pooling of one pixel. Other Reshapes are left to TensorFlow, whose Reshape
// does not copy the tensor.
bool FinishReshape(OperatorGraph& ops, int i);
// Gives paddings of the same effect the same form, so that equal blocks have
// equal signatures and convolutions that may merge are recognised. For example,
// with stride 1, SAME is an explicit padding that does not depend on the size
// of the image: the window's extent - 1 pixels, half of them before the image.
bool NormalisePadding(OperatorGraph& ops, int i);

using Rule = bool (*)(OperatorGraph&, int);

// The rules in the order in which they are applied. Each rule is applied to all
// operators until it changes nothing.
inline constexpr Rule kRules[] = {
    // AbsorbLayout is first because other rules do not look past a change of
    // layout.
    AbsorbLayout,
    MoveReference,
    ComposeRepeats,
    DropSpread,
    // FuseActivation comes before the rules for convolutions, which would
    // otherwise absorb the additions and multiplications of activations.
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
    // NormalisePadding is last because FoldPad changes paddings.
    NormalisePadding,
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_

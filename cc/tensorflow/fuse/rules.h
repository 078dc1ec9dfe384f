// The rules of fusion: each looks at one operator, and says whether it has
// changed the graph. Their order is that of kRules.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_

#include <array>
#include <cstdint>

#include "cc/tensorflow/fuse/operator_graph.h"

namespace ios::tf {

// Strides of one cell, a kernel of one cell.
inline constexpr std::array<int64_t, 2> kOne = {1, 1};

// Operators read the tensor before a change of its layout, which only matters
// outside of regions. A Transpose, say, that others read as well stays a node
// of the graph. Of several in a row the last one is first: it decides about
// those before it.
bool AbsorbLayout(OperatorGraph& ops, int i);
// An operator that reads a tensor only for its size reads an earlier one as
// large instead, so as not to come between a convolution and its bias.
bool MoveReference(OperatorGraph& ops, int i);
// Cells that are repeated along one dimension after the other.
bool ComposeRepeats(OperatorGraph& ops, int i);
// A cell that is spread over an image, or a channel over several, for operators
// that broadcast it as well.
bool DropSpread(OperatorGraph& ops, int i);
// Drops an operator if only nodes that another operator stands for read it.
bool DropUnread(OperatorGraph& ops, int i);
bool DropIdentityScale(OperatorGraph& ops, int i);
// Activations that a graph writes as several operators: gelu, swish, mish,
// hard_sigmoid … The largest composition that ends here and is one.
bool FuseActivation(OperatorGraph& ops, int i);
// A composition that is PReLU, by constants of channels or cells.
bool FusePRelu(OperatorGraph& ops, int i);
// Two scales in a row are one, and that after a norm is the norm's.
bool ComposeScales(OperatorGraph& ops, int i);
// Keras computes batch norms and means of half-precision tensors in float32,
// between two Casts. The engine computes in float32 inside of every operator.
bool AbsorbCasts(OperatorGraph& ops, int i);
// Operators that compute each cell by itself, between two Reshapes from
// [N,H,W,C] to a list of cells and back, may read the image. Keras computes
// Dense of [N,H,W,C] so: the MatMul is a 1x1 convolution.
bool KeepMaps(OperatorGraph& ops, int i);
// A Reshape from [N,C] to [N,1,1,C] goes away if what computes [N,C], from
// the global poolings on, can compute [N,1,1,C]: squeeze-and-excite with
// Dense, of one pooling or of the sum of several.
bool KeepDims(OperatorGraph& ops, int i);
// A MatMul of flattened maps reads the maps themselves.
bool FlattenIntoMatMul(OperatorGraph& ops, int i);
// Zeros added and cells cut by one operator after the other, by one.
bool ComposePads(OperatorGraph& ops, int i);
// Average pooling with a 1x1 window only leaves cells out: the convolution or
// the padding before it, or the 1x1 convolutions after it, can do that.
bool FoldSubsampling(OperatorGraph& ops, int i);
// A depthwise convolution and the 1x1 convolution that alone reads it.
bool FuseSepConv(OperatorGraph& ops, int i);
// Batch norm and bias go into the weights.
bool FoldScale(OperatorGraph& ops, int i);
// An addition goes into a convolution if the other operand is there before
// the convolution can start anyway, so that nothing is kept from running in
// parallel.
bool FoldResidual(OperatorGraph& ops, int i);
bool FoldActivation(OperatorGraph& ops, int i);
// Zeros around the input become the operators' own padding.
bool FoldPad(OperatorGraph& ops, int i);
// Relu-SepConv is one operator, if all that read the Relu are.
bool FoldPreActivation(OperatorGraph& ops, int i);
// A concat of concats, a sum of sums.
bool Flatten(OperatorGraph& ops, int i);
// [N,1,1,C] to [N,C] in front of other operators is a pooling of one cell.
// Elsewhere TensorFlow's Reshape, which copies nothing, is left.
bool FinishReshape(OperatorGraph& ops, int i);
// One way to write each padding, so that equal blocks have equal signatures
// and convolutions that may merge are seen: with stride 1, SAME adds
// (extent - 1) / 2 cells before and the rest after, for every size.
bool NormalisePadding(OperatorGraph& ops, int i);

using Rule = bool (*)(OperatorGraph&, int);

// Each is applied to all operators, in order, until it applies nowhere.
inline constexpr Rule kRules[] = {
    // First: none of the others looks through a change of layout.
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
    // Last: FoldPad adds to paddings.
    NormalisePadding,
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_RULES_H_

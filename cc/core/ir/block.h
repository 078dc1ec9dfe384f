// Block: the operators one dynamic program schedules, with typed attributes,
// shapes and edges, and no weights. Its canonical JSON is the project's
// interchange format; the SHA-256 of it, names left out, is its signature.
#ifndef IOS_TF_CC_CORE_IR_BLOCK_H_
#define IOS_TF_CC_CORE_IR_BLOCK_H_

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"

namespace ios {

// Activations are [batch, height, width, channels] or [batch, features].
using Shape = std::vector<int64_t>;

int64_t NumElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "[1,35,35,192]"

enum class OperatorType {
  kConv2D,      // [+ residual] [+ bias] + activation; groups = C is depthwise
  kSepConv,     // [relu +] depthwise + pointwise convolution, as one operator
  kPool,        // max or average; padded cells never count in an average
  kGlobalPool,  // over height and width
  kConcat,      // along channels
  kAdd,         // n-ary, equal shapes
  kBinary,      // of two tensors, or a tensor and a constant, that broadcast
  kMatMul,      // [N,I] by [I,units], or maps of the kernel's size, flattened
  kSoftmax,     // over the last dimension
  kPad,         // cells around height and width; negative ones crop
  kActivation,  // stand-alone
  kScale,       // x * scale + shift per channel: batch norm in inference
  kSlice,       // a range of channels
  kReduce,      // over channels, of which one is left
  kNormalize,   // to mean 0 and variance 1, then scale and shift by channel
  kChannelShuffle,   // [groups, C / groups] channels to [C / groups, groups]
  kResize,           // to another height and width
  kConv2DTranspose,  // [+ bias] + activation; each cell adds a window to the
                     // output
  kDepthToSpace,     // groups of channels become blocks of cells
  kSpaceToDepth,     // and back
  kLrn,  // x / (bias + alpha * sum of squares of 2 * depth_radius + 1
         // channels)^beta
};

// A function of one number, with its parameters. NaN (but for kThreshold) gives
// NaN, and infinities what TensorFlow's kernels give for them.
struct Activation {
  enum Kind {
    kNone,
    kRelu,
    kRelu6,
    kSigmoid,
    kTanh,
    kSwish,        // x * sigmoid(alpha * x)
    kHardSigmoid,  // alpha * x + beta, between 0 and 1
    kHardSwish,    // x * relu6(x + 3) / 6
    kElu,          // x, or alpha * (exp(x) - 1) below 0
    kLeakyRelu,    // x, or alpha * x below 0
    kSelu,
    kSoftplus,   // log(exp(x) + 1)
    kSoftsign,   // x / (|x| + 1)
    kGelu,       // x * (the normal distribution below x)
    kGeluTanh,   // the same, approximated with tanh
    kMish,       // x * tanh(softplus(x))
    kMaximum,    // of x and alpha
    kMinimum,    // of x and alpha
    kClip,       // x, at most beta, and then at least alpha
    kThreshold,  // x where it is above alpha, else 0
    kExp,
    kExpm1,
    kLog,
    kLog1p,
    kSqrt,
    kRsqrt,
    kSquare,
    kPow,  // x ** alpha: an integer from -4 to 4, or +-0.5
    kAbs,
    kErf,
    kErfc,
    kSin,
  };
  static constexpr int kKinds = kSin + 1;

  Activation(Kind k = kNone) : Activation(k, Defaults(k)[0], Defaults(k)[1]) {}
  Activation(Kind k, float a, float b = 0) : kind(k), alpha(a), beta(b) {}

  // alpha and beta, where none are given.
  static std::array<float, 2> Defaults(Kind kind);

  Kind kind;
  float alpha, beta;  // 0 where the comment does not name them
};

inline bool operator==(const Activation& a, const Activation& b) {
  return a.kind == b.kind && a.alpha == b.alpha && a.beta == b.beta;
}
inline bool operator!=(const Activation& a, const Activation& b) {
  return !(a == b);
}
inline bool operator<(const Activation& a, const Activation& b) {
  return std::make_tuple(a.kind, a.alpha, a.beta) <
         std::make_tuple(b.kind, b.alpha, b.beta);
}

enum class PaddingType { kSame, kValid, kExplicit };

struct Padding {
  PaddingType type = PaddingType::kValid;
  // Cells before and after, in the spatial dimensions; kExplicit only. Negative
  // ones are for Pad, and below and right for Conv2DTranspose.
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

enum class PoolKind { kMax, kAvg, kSum };

// How a convolution is computed, or a MatMul: as the device's library does, by
// Winograd's minimal filtering (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016) with tiles of the output of 2 or 4
// cells in each dimension in which the window has more than one, as a product
// of matrices, pixels x channels by channels x filters, or row by row, together
// with the 1x1 convolution before it if nothing else reads that. Results differ
// by rounding. A device may take no notice of it.
enum class Algorithm { kDirect, kWinograd2, kWinograd4, kGemm, kRows };

// The cells around an image: a value, or cells of the image mirrored at its
// outermost cells (which are not repeated) or at its border.
enum class PadMode { kConstant, kReflect, kSymmetric };

enum class Interpolation { kNearest, kBilinear };

// Cell i of a resized image lies in the original, `scale` being the ratio of
// their sizes, at i * scale, or with the cells' centers at (i + 0.5) * scale,
// or such that the outermost cells of both lie on each other.
enum class Coordinates { kAsymmetric, kHalfPixel, kAlignCorners };

enum class BinaryFunction {
  kMultiply,
  kAdd,
  kSubtract,
  kDivide,
  kMaximum,
  kMinimum,
  kSquaredDifference,
  kPRelu,  // the first, or below 0 the product of both
};

// One operator. Which attributes are meaningful depends on its type (the
// comments name the types); the others keep their defaults and are not written
// to JSON.
struct Operator {
  std::string name;  // for people only: no part of the signature
  OperatorType type = OperatorType::kConv2D;
  // i >= 0: the output of operator i; i < 0: input -1 - i of the block. The
  // residual of a convolution is its last input.
  std::vector<int> inputs;

  // Of Conv2DTranspose they are those of the convolution from its output to its
  // input: it cuts the padding off. SAME and VALID make an output `strides`
  // times as large as the input, and of full windows; with `like`, one that
  // such a convolution makes the input of.
  std::array<int64_t, 2> kernel = {
      1, 1};  // Conv2D SepConv Pool MatMul, transposed
  std::array<int64_t, 2> strides = {1, 1};    // Conv2D SepConv Pool, transposed
  std::array<int64_t, 2> dilations = {1, 1};  // Conv2D SepConv, transposed
  Padding padding;         // Conv2D SepConv Pool Pad, transposed
  int64_t filters = 0;     // Conv2D SepConv MatMul, transposed: output channels
  int64_t groups = 1;      // Conv2D Normalize ChannelShuffle
  int64_t multiplier = 1;  // SepConv: depthwise channels per input channel
  bool bias = false;       // Conv2D SepConv MatMul, transposed
  bool residual = false;   // Conv2D SepConv: added before the activation
  Activation pre_activation = Activation::kNone;  // SepConv: none or relu
  Activation activation = Activation::kNone;      // all but concat, pools,
                                                  // softmax, pad, slice,
                                                  // resize, lrn, to space,
                                                  // to depth
  Algorithm algorithm = Algorithm::kDirect;       // see MayCompute
  PoolKind pool = PoolKind::kMax;                 // Pool GlobalPool Reduce
  bool keep_dims = false;                         // GlobalPool
  // Pool, kMax: the cells of an explicit padding are zeros that count.
  bool pads_zeros = false;
  int64_t offset = 0, size = 0;                           // Slice
  Interpolation interpolation = Interpolation::kNearest;  // Resize
  Coordinates coordinates = Coordinates::kAsymmetric;     // Resize
  // Resize, height and width: output_size or, where that is 0, `factors` times
  // those of the input; or of the last input, which is read for nothing else.
  // Of these three, Conv2DTranspose has only the last.
  std::array<int64_t, 2> output_size = {0, 0};
  std::array<int64_t, 2> factors = {1, 1};
  bool like = false;
  BinaryFunction function = BinaryFunction::kMultiply;  // Binary
  // Binary: the shape of the constant, which has the rank of the other operand;
  // empty if both are tensors.
  Shape operand;
  bool swapped = false;  // Binary: the constant is the first operand
  // Normalize: whether all pixels of an image, each group of channels for
  // itself, have a mean and variance; or each pixel has.
  bool whole_images = false;
  float epsilon = 0.0f;                   // Normalize: added to the variance
  PadMode pad_mode = PadMode::kConstant;  // Pad
  float pad_value = 0;                    // Pad, kConstant
  std::array<int64_t, 2> channel_padding = {0, 0};  // Pad, kConstant
  int64_t block_size = 1;                           // DepthToSpace SpaceToDepth
  int64_t depth_radius = 0;                         // Lrn
  std::array<float, 3> normalization = {1, 1, 0.5};  // Lrn: bias, alpha, beta
};

struct Block {
  std::string name;
  DataType dtype = DataType::kFloat32;  // of every tensor
  std::vector<Shape> inputs;
  std::vector<Operator> operators;  // in a topological order
  std::vector<int> outputs;         // operators read outside of the block
};

// The leading dimension of its tensors, but for those that broadcast over it; 1
// for a block that reads nothing.
int64_t BatchSize(const std::vector<Shape>& inputs);
inline int64_t BatchSize(const Block& block) { return BatchSize(block.inputs); }

// Whether it can be computed that way: Winograd's are for Conv2D that move by
// one cell, not dilated, not grouped, with windows of 3x3, 1x3 or 3x1; tiles of
// 2 for 5x5, 1x5, 5x1, 1x7 and 7x1, too. A product of matrices is a Conv2D of
// 1x1 that neither moves further nor pads nor is grouped, and the 1x1
// convolution of a SepConv. Row by row go depthwise Conv2D: those whose every
// channel is a group and makes one filter, with windows of 16 rows at most.
bool MayCompute(const Operator& op, Algorithm algorithm);

// Of maps with filters: Conv2D, SepConv, Conv2DTranspose.
bool IsConvolution(OperatorType type);

const char* ToString(OperatorType type);    // "conv2d", "sepconv", …
const char* ToString(Algorithm algorithm);  // "winograd_4x4", …
StatusOr<Algorithm> AlgorithmFromString(const std::string& text);
std::string ToString(const Activation& activation);  // "elu", "elu(0.5)"

// The shape that both broadcast to, by dimension; empty if they do not.
Shape Broadcast(const Shape& x, const Shape& y);

// The shape of an operator's output, given those of its inputs.
StatusOr<Shape> InferShape(const Operator& op,
                           const std::vector<Shape>& inputs);

// The shapes of all operators' outputs. An error names the operator and what
// does not fit. TensorFlow's rules for SAME and VALID.
StatusOr<std::vector<Shape>> InferShapes(const Block& block);

// Cells of zeros before/after in height and width that `op` (Conv2D, SepConv,
// Pool) reads around an input of `input` shape: {top, bottom, left, right}.
std::array<int64_t, 4> ExplicitPadding(const Operator& op, const Shape& input);

// The same of a Conv2DTranspose, which cuts these cells off. Those below and
// right are negative where the output has cells that no window reaches.
std::array<int64_t, 4> TransposedPadding(const Operator& op, const Shape& input,
                                         const Shape& output);

// Whether it is zeros around height and width, or less of these.
bool PadsWithZeros(const Operator& op);

// The `scale` by which Coordinates map cells.
float ResizeScale(Coordinates coordinates, int64_t input, int64_t output);

// The shapes of the weights `op` owns, in order; empty for most types.
//   Conv2D:  filter [kh, kw, C / groups, filters], bias [filters] if bias
//   SepConv: depthwise [kh, kw, 1, C * multiplier],
//            pointwise [1, 1, C * multiplier, filters], bias [filters] if bias
//   Conv2DTranspose: filter [kh, kw, C, filters], bias [filters] if bias
//   MatMul:  [I, units] or [kh, kw, C, units], bias [units] if bias
//   Scale:   scale [C], shift [C]
//   Normalize: scale [C], shift [C]
//   Binary:  the constant, of `operand`'s shape, if there is one
std::vector<Shape> WeightShapes(const Operator& op, const Shape& input);

// Multiply-adds and comparisons `op` makes; a work estimate, not a time.
int64_t Flops(const Operator& op, const std::vector<Shape>& inputs,
              const Shape& output);

// Operators are in a topological order, references are in range, attributes are
// legal, shapes infer.
Status Validate(const Block& block);

// The shape of tensor reference `ref` (see Operator::inputs).
const Shape& ShapeOf(const Block& block, const std::vector<Shape>& shapes,
                     int ref);

// Those of everything operator `index` reads, in order.
std::vector<Shape> InputShapes(const Block& block,
                               const std::vector<Shape>& shapes, int index);

// Some operators of a block as a block of their own. References are those of
// the whole block.
struct PartOfBlock {
  Block block;
  std::vector<int> inputs;   // tensors
  std::vector<int> outputs;  // operators
};

// `operators` are in a topological order. Outputs are what the rest of the
// block, or whoever reads the block, reads of them.
PartOfBlock TakePart(const Block& block, const std::vector<Shape>& shapes,
                     const std::vector<int>& operators);

std::string ToJson(const Block& block);
StatusOr<Block> BlockFromJson(const std::string& json);
std::string Signature(const Block& block);  // 64 hexadecimal digits

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_BLOCK_H_

// Block: the operators that one dynamic program schedules, with typed
// attributes, shapes and edges, but without weights. Its canonical JSON is the
// project's interchange format. The SHA-256 of this JSON without names is the
// block's signature.
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
  kBinary,      // two tensors, or a tensor and a constant; they broadcast
  kMatMul,      // [N,I] by [I,units]; flattens images of the kernel's size
  kSoftmax,     // over the last dimension
  kPad,         // adds cells around height and width; negative padding crops
  kActivation,  // stand-alone
  kScale,       // x * scale + shift per channel: batch norm in inference
  kSlice,       // a range of channels
  kReduce,      // over all channels, to one channel
  kNormalize,   // to mean 0 and variance 1, then scale and shift per channel
  kChannelShuffle,   // [groups, C / groups] channels to [C / groups, groups]
  kResize,           // to another height and width
  kConv2DTranspose,  // [+ bias] + activation; each cell adds a window to the
                     // output
  kDepthToSpace,     // groups of channels become blocks of cells
  kSpaceToDepth,     // the inverse of kDepthToSpace
  kLrn,  // x / (bias + alpha * sum of squares of 2 * depth_radius + 1
         // channels)^beta
};

// A function of one number, with its parameters. NaN gives NaN, except with
// kThreshold. Infinities give the same results as TensorFlow's kernels.
struct Activation {
  enum Kind {
    kNone,
    kRelu,
    kRelu6,
    kSigmoid,
    kTanh,
    kSwish,        // x * sigmoid(alpha * x)
    kHardSigmoid,  // alpha * x + beta, clipped to [0, 1]
    kHardSwish,    // x * relu6(x + 3) / 6
    kElu,          // x, or alpha * (exp(x) - 1) if x < 0
    kLeakyRelu,    // x, or alpha * x if x < 0
    kSelu,
    kSoftplus,   // log(exp(x) + 1)
    kSoftsign,   // x / (|x| + 1)
    kGelu,       // x * (cumulative normal distribution at x)
    kGeluTanh,   // kGelu, approximated with tanh
    kMish,       // x * tanh(softplus(x))
    kMaximum,    // max(x, alpha)
    kMinimum,    // min(x, alpha)
    kClip,       // max(min(x, beta), alpha)
    kThreshold,  // x if x > alpha, else 0
    kExp,
    kExpm1,
    kLog,
    kLog1p,
    kSqrt,
    kRsqrt,
    kSquare,
    kPow,  // x ** alpha; alpha is an integer from -4 to 4, or +-0.5
    kAbs,
    kErf,
    kErfc,
    kSin,
  };
  static constexpr int kKinds = kSin + 1;

  Activation(Kind k = kNone) : Activation(k, Defaults(k)[0], Defaults(k)[1]) {}
  Activation(Kind k, float a, float b = 0) : kind(k), alpha(a), beta(b) {}

  // The default values of alpha and beta.
  static std::array<float, 2> Defaults(Kind kind);

  Kind kind;
  float alpha, beta;  // 0 if the kind's comment does not name them
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
  // Rows and columns on each side of the image; kExplicit only. Negative values
  // are allowed for Pad, and as `bottom` and `right` of Conv2DTranspose.
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

enum class PoolKind { kMax, kAvg, kSum };

// The algorithm of a convolution or a MatMul.
//   kDirect: the default, usually an algorithm of the device's library.
//   kWinograd2, kWinograd4: Winograd's minimal filtering (Lavin and Gray, "Fast
//     Algorithms for Convolutional Neural Networks", 2016). Output tiles have 2
//     or 4 cells in each dimension in which the window has more than one cell.
//   kGemm: a matrix product, pixels x channels by channels x filters.
//   kRows: row by row, together with the 1x1 convolution before it if nothing
//     else reads the output of that convolution.
// Results differ by rounding. A backend may ignore this hint.
enum class Algorithm { kDirect, kWinograd2, kWinograd4, kGemm, kRows };

// The contents of the cells around an image.
//   kConstant: a value.
//   kReflect: the image mirrored at its outermost cells, without repeating
//     these cells.
//   kSymmetric: the image mirrored at its border.
enum class PadMode { kConstant, kReflect, kSymmetric };

enum class Interpolation { kNearest, kBilinear };

// Maps cell i of a resized image to a position in the original image. For
// `scale`, see ResizeScale.
//   kAsymmetric: at i * scale.
//   kHalfPixel: the cell's center is at (i + 0.5) * scale.
//   kAlignCorners: at i * scale; the outermost cells of both images coincide.
enum class Coordinates { kAsymmetric, kHalfPixel, kAlignCorners };

enum class BinaryFunction {
  kMultiply,
  kAdd,
  kSubtract,
  kDivide,
  kMaximum,
  kMinimum,
  kSquaredDifference,
  kPRelu,  // x, or x * y if x < 0
};

// One operator. The comments name the types for which each attribute has a
// meaning ("transposed": Conv2DTranspose). For other types the attribute keeps
// its default and is not written to JSON.
struct Operator {
  std::string name;  // for people only; not part of the signature
  OperatorType type = OperatorType::kConv2D;
  // i >= 0: the output of operator i; i < 0: input -1 - i of the block. The
  // residual of a convolution is its last input.
  std::vector<int> inputs;

  // For Conv2DTranspose, these describe the forward convolution (output to
  // input), and the padding is cut off the output. With SAME, the output is
  // `strides` times as large as the input. With VALID, it holds all windows in
  // full. With `size_from_last_input`, it has the size of the last input. The
  // forward convolution must then map this size to the size of the first input.
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
                                                  // resize, lrn,
                                                  // DepthToSpace,
                                                  // SpaceToDepth
  Algorithm algorithm = Algorithm::kDirect;       // see MayCompute
  PoolKind pool = PoolKind::kMax;                 // Pool GlobalPool Reduce
  bool keep_dims = false;                         // GlobalPool
  // Pool, kMax: the cells of an explicit padding count as zeros.
  bool pads_zeros = false;
  int64_t offset = 0, size = 0;                           // Slice
  Interpolation interpolation = Interpolation::kNearest;  // Resize
  Coordinates coordinates = Coordinates::kAsymmetric;     // Resize
  // Resize: the output's height and width. They are output_size or, if that is
  // 0, `factors` times the input's size. With `size_from_last_input`, they are
  // `factors` times the size of the last input, whose values are not read.
  // Conv2DTranspose uses only `size_from_last_input`.
  std::array<int64_t, 2> output_size = {0, 0};
  std::array<int64_t, 2> factors = {1, 1};
  bool size_from_last_input = false;
  BinaryFunction function = BinaryFunction::kMultiply;  // Binary
  // Binary: the shape of the constant, which has the same rank as the other
  // operand; empty if both operands are tensors.
  Shape operand;
  bool constant_first = false;  // Binary: the constant is the first operand
  // Normalize: each group of channels has one mean and variance per image if
  // true, and one per pixel if false.
  bool per_image = false;
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
  std::vector<int> outputs;         // operators whose result leaves the block
};

// The number of images: the leading dimension of the inputs, apart from inputs
// that broadcast over it. 1 if there are no inputs.
int64_t BatchSize(const std::vector<Shape>& inputs);
inline int64_t BatchSize(const Block& block) { return BatchSize(block.inputs); }

// Returns whether `algorithm` can compute `op`.
//   kWinograd2, kWinograd4: Conv2D with stride 1, without dilation or groups,
//     with windows of 3x3, 1x3 or 3x1. kWinograd2 also allows 5x5, 1x5, 5x1,
//     1x7 and 7x1.
//   kGemm: 1x1 Conv2D without padding or groups, MatMul, and the 1x1
//     convolution of a SepConv.
//   kRows: depthwise Conv2D with one filter per channel, no residual, and
//     windows of at most 16 rows.
bool MayCompute(const Operator& op, Algorithm algorithm);

// True for Conv2D, SepConv and Conv2DTranspose.
bool IsConvolution(OperatorType type);

const char* ToString(OperatorType type);    // "conv2d", "sepconv", …
const char* ToString(Algorithm algorithm);  // "winograd_4x4", …
StatusOr<Algorithm> AlgorithmFromString(const std::string& text);
std::string ToString(const Activation& activation);  // "elu", "elu(0.5)"

// The shape that `x` and `y`, which have the same rank, broadcast to; empty if
// they do not broadcast.
Shape Broadcast(const Shape& x, const Shape& y);

// The shape of an operator's output, from the shapes of its inputs.
StatusOr<Shape> InferShape(const Operator& op,
                           const std::vector<Shape>& inputs);

// The shapes of all operators' outputs. SAME and VALID follow TensorFlow's
// rules. An error names the operator and the mismatch.
StatusOr<std::vector<Shape>> InferShapes(const Block& block);

// The rows and columns of padding that `op` (Conv2D, SepConv, Pool) reads
// around an input of shape `input`: {top, bottom, left, right}.
std::array<int64_t, 4> ExplicitPadding(const Operator& op, const Shape& input);

// The rows and columns that a Conv2DTranspose cuts off: {top, bottom, left,
// right}. Bottom and right are negative if the output has cells that no window
// reaches.
std::array<int64_t, 4> TransposedPadding(const Operator& op, const Shape& input,
                                         const Shape& output);

// Returns whether `op` is a Pad that adds zeros around height and width, or
// crops them.
bool PadsWithZeros(const Operator& op);

// The `scale` of Coordinates, for an input and output of these sizes.
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

// The number of multiplications, additions and comparisons of `op`. This
// estimates work, not time.
int64_t Flops(const Operator& op, const std::vector<Shape>& inputs,
              const Shape& output);

// Checks that operators are in a topological order, references are in range,
// attributes are legal, and shapes can be inferred.
Status Validate(const Block& block);

// The shape of tensor reference `ref` (see Operator::inputs).
const Shape& ShapeOf(const Block& block, const std::vector<Shape>& shapes,
                     int ref);

// The shapes of all inputs of operator `index`, in order.
std::vector<Shape> InputShapes(const Block& block,
                               const std::vector<Shape>& shapes, int index);

// Some operators of a block as a separate block. `inputs` and `outputs` refer
// to the whole block.
struct PartOfBlock {
  Block block;
  std::vector<int> inputs;   // tensors
  std::vector<int> outputs;  // operators
};

// `operators` are in a topological order. The part's outputs are those
// operators that the rest of the block reads or that are outputs of the block.
PartOfBlock TakePart(const Block& block, const std::vector<Shape>& shapes,
                     const std::vector<int>& operators);

std::string ToJson(const Block& block);
StatusOr<Block> BlockFromJson(const std::string& json);
std::string Signature(const Block& block);  // 64 hexadecimal digits

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_BLOCK_H_

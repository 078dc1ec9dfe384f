// Operator: one operator of a block, with typed attributes, but without
// weights.
#ifndef IOS_TF_CC_CORE_OPS_OPERATOR_H_
#define IOS_TF_CC_CORE_OPS_OPERATOR_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/ops/activation.h"
#include "cc/core/ops/attribute_values.h"
#include "cc/core/ops/shape.h"
#include "cc/core/status.h"

namespace ios {

// See operators.def.
enum class OperatorType {
#define IOS_OPERATOR(Name) k##Name,
#include "cc/core/ops/operators.def"
};

inline constexpr OperatorType kOperatorTypes[] = {
#define IOS_OPERATOR(Name) OperatorType::k##Name,
#include "cc/core/ops/operators.def"
};

enum class PaddingType { kSame, kValid, kExplicit };

struct Padding {
  PaddingType type = PaddingType::kValid;
  // The number of rows and columns added on each side of the image, for
  // kExplicit only. Pad allows negative values; Conv2DTranspose allows them for
  // `bottom` and `right`.
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// One operator. The comment beside each attribute lists the types of operators
// that have this attribute ("transposed" is Conv2DTranspose). For other types
// the attribute keeps its default and is not written to JSON.
struct Operator {
  std::string name;  // for people only; not part of the signature
  OperatorType type = OperatorType::kConv2D;
  // References to tensors: i >= 0 is the output of operator i, and i < 0 is
  // input -1 - i of the block. If a convolution has a residual, it is the last
  // input.
  std::vector<int> inputs;

  // For Conv2DTranspose, kernel, strides, dilations and padding describe the
  // forward convolution, which maps the output to the input. The padding is cut
  // off the output. With SAME, the output is `strides` times as large as the
  // input. With VALID, the output is large enough for all windows. With
  // `size_from_last_input`, the output has the size of the last input; the
  // forward convolution must map this size to the size of the first input.
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
  // Pool with kMax: if true, cells of the explicit padding count as zeros; if
  // false, they are ignored.
  bool pads_zeros = false;
  int64_t offset = 0, size = 0;                           // Slice
  Interpolation interpolation = Interpolation::kNearest;  // Resize
  Coordinates coordinates = Coordinates::kAsymmetric;     // Resize
  // Resize: the output's height and width are output_size or, if that is 0, the
  // input's height and width times `factors`. With `size_from_last_input`, they
  // are the height and width of the last input times `factors`; the values of
  // that input are not read. Conv2DTranspose uses only `size_from_last_input`.
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
// Computes function(a, b) in float64. NaN gives NaN.
double Exact(BinaryFunction function, double a, double b);

// Returns the shape of an operator's output for inputs of the shapes `inputs`.
StatusOr<Shape> InferShape(const Operator& op,
                           const std::vector<Shape>& inputs);

// Returns the number of rows and columns of padding that `op` (Conv2D, SepConv,
// Pool) reads around an input of shape `input`: {top, bottom, left, right}.
std::array<int64_t, 4> ExplicitPadding(const Operator& op, const Shape& input);

// Returns the number of rows and columns that a Conv2DTranspose cuts off its
// output: {top, bottom, left, right}. Bottom and right are negative if the
// output has cells that no window reaches.
std::array<int64_t, 4> TransposedPadding(const Operator& op, const Shape& input,
                                         const Shape& output);

// Returns whether `op` is a Pad that adds zeros around height and width, or
// crops them.
bool PadsWithZeros(const Operator& op);

// Returns the factor `scale` of the formulas at Coordinates, for one dimension
// whose sizes are `input` and `output`.
float ResizeScale(Coordinates coordinates, int64_t input, int64_t output);

// Returns the shapes of the weights of `op` in the order of this list, or an
// empty list for types that are not listed:
//   Conv2D:  filter [kh, kw, C / groups, filters], bias [filters] if bias
//   SepConv: depthwise [kh, kw, 1, C * multiplier],
//            pointwise [1, 1, C * multiplier, filters], bias [filters] if bias
//   Conv2DTranspose: filter [kh, kw, C, filters], bias [filters] if bias
//   MatMul:  [I, units] or [kh, kw, C, units], bias [units] if bias
//   Scale:   scale [C], shift [C]
//   Normalize: scale [C], shift [C]
//   Binary:  the constant, of `operand`'s shape, if there is one
std::vector<Shape> WeightShapes(const Operator& op, const Shape& input);

// Returns the number of multiplications, additions and comparisons of `op`.
// This estimates work, not time.
int64_t Flops(const Operator& op, const std::vector<Shape>& inputs,
              const Shape& output);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_OPERATOR_H_

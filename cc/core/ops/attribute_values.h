// The values of attributes, and their names in JSON and in messages.
#ifndef IOS_TF_CC_CORE_OPS_ATTRIBUTE_VALUES_H_
#define IOS_TF_CC_CORE_OPS_ATTRIBUTE_VALUES_H_

#include <array>
#include <utility>

namespace ios {

enum class PoolKind { kMax, kAvg, kSum };

inline constexpr std::array<std::pair<PoolKind, const char*>, 3> kPoolNames = {{
    {PoolKind::kMax, "max"},
    {PoolKind::kAvg, "avg"},
    {PoolKind::kSum, "sum"},
}};

// The algorithm of a convolution or a MatMul.
//   kDirect: the default, usually an algorithm of the device's library.
//   kWinograd2, kWinograd4: Winograd's minimal filtering (Lavin and Gray, "Fast
//     Algorithms for Convolutional Neural Networks", 2016). Output tiles have 2
//     or 4 cells in each dimension in which the window has more than one cell.
//   kGemm: a matrix product, pixels x channels by channels x filters.
//   kRows: computes a depthwise convolution row by row. If it is the only
//     reader of a 1x1 convolution, each row of that convolution is computed
//     just before it is needed.
// The results of the algorithms differ by rounding only. A backend may ignore
// the chosen algorithm.
enum class Algorithm { kDirect, kWinograd2, kWinograd4, kGemm, kRows };

inline constexpr std::array<std::pair<Algorithm, const char*>, 5>
    kAlgorithmNames = {{
        {Algorithm::kDirect, "direct"},
        {Algorithm::kWinograd2, "winograd_2x2"},
        {Algorithm::kWinograd4, "winograd_4x4"},
        {Algorithm::kGemm, "gemm"},
        {Algorithm::kRows, "rows"},
    }};

// The contents of the cells that Pad adds around an image.
//   kConstant: a constant value.
//   kReflect: the image mirrored at its outermost cells, without repeating
//     these cells.
//   kSymmetric: the image mirrored at its border.
//   kWrap: the image repeated periodically, so that its left neighbor is its
//     right end.
enum class PadMode { kConstant, kReflect, kSymmetric, kWrap };

inline constexpr std::array<std::pair<PadMode, const char*>, 4> kPadModeNames =
    {{
        {PadMode::kConstant, "constant"},
        {PadMode::kReflect, "reflect"},
        {PadMode::kSymmetric, "symmetric"},
        {PadMode::kWrap, "wrap"},
    }};

enum class Interpolation { kNearest, kBilinear };

inline constexpr std::array<std::pair<Interpolation, const char*>, 2>
    kInterpolationNames = {{
        {Interpolation::kNearest, "nearest"},
        {Interpolation::kBilinear, "bilinear"},
    }};

// Maps cell i of a resized image to a position in the original image. For
// `scale`, see ResizeScale.
//   kAsymmetric: at i * scale.
//   kHalfPixel: the cell's center is at (i + 0.5) * scale.
//   kAlignCorners: at i * scale; the outermost cells of both images coincide.
enum class Coordinates { kAsymmetric, kHalfPixel, kAlignCorners };

inline constexpr std::array<std::pair<Coordinates, const char*>, 3>
    kCoordinatesNames = {{
        {Coordinates::kAsymmetric, "asymmetric"},
        {Coordinates::kHalfPixel, "half_pixel"},
        {Coordinates::kAlignCorners, "align_corners"},
    }};

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

inline constexpr std::array<std::pair<BinaryFunction, const char*>, 8>
    kFunctionNames = {{
        {BinaryFunction::kMultiply, "multiply"},
        {BinaryFunction::kAdd, "add"},
        {BinaryFunction::kSubtract, "subtract"},
        {BinaryFunction::kDivide, "divide"},
        {BinaryFunction::kMaximum, "maximum"},
        {BinaryFunction::kMinimum, "minimum"},
        {BinaryFunction::kSquaredDifference, "squared_difference"},
        {BinaryFunction::kPRelu, "prelu"},
    }};

// Returns the table of names for an attribute's type.
constexpr const auto& NamesOf(Algorithm) { return kAlgorithmNames; }
constexpr const auto& NamesOf(PoolKind) { return kPoolNames; }
constexpr const auto& NamesOf(PadMode) { return kPadModeNames; }
constexpr const auto& NamesOf(Interpolation) { return kInterpolationNames; }
constexpr const auto& NamesOf(Coordinates) { return kCoordinatesNames; }
constexpr const auto& NamesOf(BinaryFunction) { return kFunctionNames; }

template <typename Enum>
const char* NameOf(Enum value) {
  for (const auto& [entry, name] : NamesOf(value)) {
    if (entry == value) return name;
  }
  return "unknown";
}

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_ATTRIBUTE_VALUES_H_

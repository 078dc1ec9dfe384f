// The names of attributes' values in JSON and messages.
#ifndef IOS_TF_CC_CORE_OPS_ATTRIBUTE_NAMES_H_
#define IOS_TF_CC_CORE_OPS_ATTRIBUTE_NAMES_H_

#include <array>
#include <utility>

#include "cc/core/ops/operator.h"

namespace ios {

inline constexpr std::array<std::pair<Algorithm, const char*>, 5>
    kAlgorithmNames = {{
        {Algorithm::kDirect, "direct"},
        {Algorithm::kWinograd2, "winograd_2x2"},
        {Algorithm::kWinograd4, "winograd_4x4"},
        {Algorithm::kGemm, "gemm"},
        {Algorithm::kRows, "rows"},
    }};

inline constexpr std::array<std::pair<PoolKind, const char*>, 3> kPoolNames = {{
    {PoolKind::kMax, "max"},
    {PoolKind::kAvg, "avg"},
    {PoolKind::kSum, "sum"},
}};

inline constexpr std::array<std::pair<PadMode, const char*>, 3> kPadModeNames =
    {{
        {PadMode::kConstant, "constant"},
        {PadMode::kReflect, "reflect"},
        {PadMode::kSymmetric, "symmetric"},
    }};

inline constexpr std::array<std::pair<Interpolation, const char*>, 2>
    kInterpolationNames = {{
        {Interpolation::kNearest, "nearest"},
        {Interpolation::kBilinear, "bilinear"},
    }};

inline constexpr std::array<std::pair<Coordinates, const char*>, 3>
    kCoordinatesNames = {{
        {Coordinates::kAsymmetric, "asymmetric"},
        {Coordinates::kHalfPixel, "half_pixel"},
        {Coordinates::kAlignCorners, "align_corners"},
    }};

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

// The table of an attribute's type.
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

#endif  // IOS_TF_CC_CORE_OPS_ATTRIBUTE_NAMES_H_

// The names of operator types and attribute values in JSON and messages.
#ifndef IOS_TF_CC_CORE_IR_OPERATOR_NAMES_H_
#define IOS_TF_CC_CORE_IR_OPERATOR_NAMES_H_

#include <array>
#include <utility>

#include "cc/core/ir/block.h"

namespace ios {

inline constexpr std::array<std::pair<OperatorType, const char*>, 21>
    kTypeNames = {{
        {OperatorType::kConv2D, "conv2d"},
        {OperatorType::kSepConv, "sepconv"},
        {OperatorType::kPool, "pool"},
        {OperatorType::kGlobalPool, "global_pool"},
        {OperatorType::kConcat, "concat"},
        {OperatorType::kAdd, "add"},
        {OperatorType::kBinary, "binary"},
        {OperatorType::kMatMul, "matmul"},
        {OperatorType::kSoftmax, "softmax"},
        {OperatorType::kPad, "pad"},
        {OperatorType::kActivation, "activation"},
        {OperatorType::kScale, "scale"},
        {OperatorType::kSlice, "slice"},
        {OperatorType::kReduce, "reduce"},
        {OperatorType::kNormalize, "normalize"},
        {OperatorType::kChannelShuffle, "channel_shuffle"},
        {OperatorType::kResize, "resize"},
        {OperatorType::kConv2DTranspose, "conv2d_transpose"},
        {OperatorType::kDepthToSpace, "depth_to_space"},
        {OperatorType::kSpaceToDepth, "space_to_depth"},
        {OperatorType::kLrn, "lrn"},
    }};

inline constexpr std::array<std::pair<Activation::Kind, const char*>,
                            Activation::kKinds>
    kActivationNames = {{
        {Activation::kNone, "none"},
        {Activation::kRelu, "relu"},
        {Activation::kRelu6, "relu6"},
        {Activation::kSigmoid, "sigmoid"},
        {Activation::kTanh, "tanh"},
        {Activation::kSwish, "swish"},
        {Activation::kHardSigmoid, "hard_sigmoid"},
        {Activation::kHardSwish, "hard_swish"},
        {Activation::kElu, "elu"},
        {Activation::kLeakyRelu, "leaky_relu"},
        {Activation::kSelu, "selu"},
        {Activation::kSoftplus, "softplus"},
        {Activation::kSoftsign, "softsign"},
        {Activation::kGelu, "gelu"},
        {Activation::kGeluTanh, "gelu_tanh"},
        {Activation::kMish, "mish"},
        {Activation::kMaximum, "maximum"},
        {Activation::kMinimum, "minimum"},
        {Activation::kClip, "clip"},
        {Activation::kThreshold, "threshold"},
        {Activation::kExp, "exp"},
        {Activation::kExpm1, "expm1"},
        {Activation::kLog, "log"},
        {Activation::kLog1p, "log1p"},
        {Activation::kSqrt, "sqrt"},
        {Activation::kRsqrt, "rsqrt"},
        {Activation::kSquare, "square"},
        {Activation::kPow, "pow"},
        {Activation::kAbs, "abs"},
        {Activation::kErf, "erf"},
        {Activation::kErfc, "erfc"},
        {Activation::kSin, "sin"},
    }};

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

template <typename Table, typename Enum>
const char* NameIn(const Table& table, Enum value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "unknown";
}

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_OPERATOR_NAMES_H_

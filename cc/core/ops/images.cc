// The definitions of the operators Pad and Resize, which move or repeat pixels.

#include <algorithm>
#include <array>

#include "cc/core/limits.h"
#include "cc/core/ops/definition.h"

namespace ios {
namespace {

StatusOr<Shape> WithinLimits(const Shape& image) {
  if (std::max(image[1], image[2]) <= kMaxMapped) return image;
  return InvalidArgument("the output image is too large: " + ToString(image));
}

// Returns the error that a padding is larger than the image that it mirrors.
Status PaddingIsTooLarge(const Operator& op, const Shape& x) {
  const Padding& p = op.padding;
  const bool reflects = op.pad_mode == PadMode::kReflect;
  return InvalidArgument(
      "padding " + ToString({p.top, p.bottom, p.left, p.right}) + " must " +
      (reflects ? "be smaller" : "not be larger") +
      " than the image in tensor " + ToString(x) + ", because pad_mode is " +
      (reflects ? "reflect" : "symmetric"));
}

}  // namespace

constexpr OperatorDefinition kPadDefinition = [] {
  OperatorDefinition pad{"pad"};
  pad.reads_images = true;
  pad.check = [](const Operator& op) {
    if (op.pad_mode != PadMode::kConstant &&
        (op.channel_padding[0] > 0 || op.channel_padding[1] > 0)) {
      return InvalidArgument(
          "channel_padding must be 0 unless pad_mode is constant");
    }
    return Status();
  };
  pad.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    const Shape& x = in[0];
    const Padding& p = op.padding;
    const bool reflects = op.pad_mode == PadMode::kReflect;
    const bool mirrors = reflects || op.pad_mode == PadMode::kSymmetric;
    if (reflects && x[0] < 1) {
      return NotAsWanted(
          x, "have at least one image, because pad_mode is reflect");
    }
    if (mirrors && (std::max(p.top, p.bottom) > x[1] - reflects ||
                    std::max(p.left, p.right) > x[2] - reflects)) {
      return PaddingIsTooLarge(op, x);
    }
    Shape padded = {x[0], std::max<int64_t>(x[1] + p.top + p.bottom, 0),
                    std::max<int64_t>(x[2] + p.left + p.right, 0),
                    x[3] + op.channel_padding[0] + op.channel_padding[1]};
    if (op.pad_mode == PadMode::kWrap && NumElements(padded) > 0 &&
        (x[1] == 0 || x[2] == 0)) {
      return NotAsWanted(
          x, "have at least one pixel, because its padding repeats pixels");
    }
    return WithinLimits(padded);
  };
  pad.channels = [](const Operator& op, int64_t) {
    return op.channel_padding == std::array<int64_t, 2>{0, 0}
               ? ChannelUse::kEach
               : ChannelUse::kOther;
  };
  pad.reads_empty_images = [](const Operator&) { return true; };
  return pad;
}();

bool PadsWithZeros(const Operator& op) {
  return op.type == OperatorType::kPad && op.pad_mode == PadMode::kConstant &&
         op.pad_value == 0.0f &&
         op.channel_padding == std::array<int64_t, 2>{0, 0};
}

constexpr OperatorDefinition kResizeDefinition = [] {
  OperatorDefinition resize{"resize"};
  resize.arity = [](const Operator& op) -> Arity {
    const size_t inputs = op.size_from_last_input ? 2 : 1;
    return {inputs, inputs};
  };
  resize.reads_images = true;
  resize.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    const Shape& x = in[0];
    Shape output = x;
    for (int i = 0; i < 2; ++i) {
      output[1 + i] = op.size_from_last_input ? in.back()[1 + i] * op.factors[i]
                      : op.output_size[i] > 0 ? op.output_size[i]
                                              : x[1 + i] * op.factors[i];
    }
    // Images must have pixels even if the batch is empty, as in TensorFlow.
    if (x[1] < 1 || x[2] < 1) {
      return NotAsWanted(x, "have at least one pixel per image");
    }
    if (output[1] < 1 || output[2] < 1) {
      return InvalidArgument("the output image has no pixels: " +
                             ToString(output));
    }
    return WithinLimits(output);
  };
  resize.flops = [](const Operator& op, const Shapes&, const Shape& output) {
    return NumElements(output) *
           (op.interpolation == Interpolation::kBilinear ? 4 : 1);
  };
  resize.channels = OperatorDefinition::EachChannel;
  return resize;
}();

float ResizeScale(Coordinates coordinates, int64_t input, int64_t output) {
  return coordinates == Coordinates::kAlignCorners && output > 1
             ? (input - 1) / static_cast<float>(output - 1)
             : input / static_cast<float>(output);
}

}  // namespace ios

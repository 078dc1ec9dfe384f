// Operators that move channels: Concat, Slice, ChannelShuffle, DepthToSpace and
// SpaceToDepth.

#include <algorithm>
#include <string>

#include "cc/core/limits.h"
#include "cc/core/ops/definition.h"

namespace ios {
constexpr OperatorDefinition kConcatDefinition = [] {
  OperatorDefinition concat{"concat"};
  concat.arity = [](const Operator&) { return Arity{1, kMaxOperatorInputs}; };
  concat.shape = [](const Operator&, const Shapes& in) -> StatusOr<Shape> {
    const Shape& x = in[0];
    Shape output = x;
    output.back() = 0;
    for (const Shape& shape : in) {
      if (shape.size() != x.size() ||
          !std::equal(shape.begin(), shape.end() - 1, x.begin())) {
        return InvalidArgument("inputs " + ToString(x) + " and " +
                               ToString(shape) +
                               " cannot be concatenated, because other "
                               "dimensions than the channels differ");
      }
      output.back() += shape.back();
    }
    return output;
  };
  concat.reads_empty_images = [](const Operator&) { return true; };
  return concat;
}();

constexpr OperatorDefinition kSliceDefinition = [] {
  OperatorDefinition slice{"slice"};
  slice.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    if (op.offset < 0 || op.size < 1 || op.offset + op.size > in[0].back()) {
      return InvalidArgument(
          "offset and size of the slice exceed the channels of the input " +
          ToString(in[0]));
    }
    Shape output = in[0];
    output.back() = op.size;
    return output;
  };
  slice.flops = [](const Operator&, const Shapes&, const Shape&) {
    return int64_t{0};
  };
  return slice;
}();

constexpr OperatorDefinition kChannelShuffleDefinition = [] {
  OperatorDefinition shuffle{"channel_shuffle"};
  shuffle.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    if (in[0].back() % op.groups == 0) return in[0];
    return GroupsDoNotDivide(op.groups, "channels", in[0].back());
  };
  return shuffle;
}();

constexpr OperatorDefinition kDepthToSpaceDefinition = [] {
  OperatorDefinition move{"depth_to_space"};
  move.reads_images = true;
  move.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    const int64_t side = op.block_size;
    const Shape& x = in[0];
    if (x[3] % (side * side) != 0) {
      return NotAsWanted(x,
                         "have a number of channels that is a multiple of "
                         "block_size * block_size");
    }
    return Shape{x[0], x[1] * side, x[2] * side, x[3] / (side * side)};
  };
  return move;
}();

constexpr OperatorDefinition kSpaceToDepthDefinition = [] {
  OperatorDefinition move{"space_to_depth"};
  move.reads_images = true;
  move.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    const int64_t side = op.block_size;
    const Shape& x = in[0];
    if (x[1] % side != 0 || x[2] % side != 0) {
      return NotAsWanted(
          x, "have a height and a width that are multiples of block_size");
    }
    return Shape{x[0], x[1] / side, x[2] / side, x[3] * side * side};
  };
  return move;
}();

}  // namespace ios

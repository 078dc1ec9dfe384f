// Pool, GlobalPool and Reduce.

#include "cc/core/limits.h"
#include "cc/core/ops/definition.h"
#include "cc/core/ops/windows.h"

namespace ios {
constexpr OperatorDefinition kPoolDefinition = [] {
  OperatorDefinition pool{"pool"};
  pool.reads_images = true;
  pool.check = [](const Operator& op) {
    if (op.pool == PoolKind::kSum) {
      return InvalidArgument("the attribute pool of a pool must be max or avg");
    }
    if (op.pads_zeros && (op.pool != PoolKind::kMax ||
                          op.padding.type != PaddingType::kExplicit)) {
      return InvalidArgument(
          "pads_zeros is allowed only for max pools with explicit padding");
    }
    return OperatorDefinition::PaddingIsNotNegative(op);
  };
  pool.shape = [](const Operator& op, const Shapes& in) {
    return WindowedShape(op, in[0], in[0][3]);
  };
  pool.flops = [](const Operator& op, const Shapes&, const Shape& output) {
    return SaturatingProduct({NumElements(output), op.kernel[0], op.kernel[1]});
  };
  pool.channels = OperatorDefinition::EachChannel;
  pool.reads_empty_images = [](const Operator& op) {
    return op.pool == PoolKind::kMax;
  };
  return pool;
}();

constexpr OperatorDefinition kGlobalPoolDefinition = [] {
  OperatorDefinition pool{"global_pool"};
  pool.reads_images = true;
  pool.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    const Shape& x = in[0];
    return op.keep_dims ? Shape{x[0], 1, 1, x[3]} : Shape{x[0], x[3]};
  };
  pool.channels = OperatorDefinition::EachChannel;
  pool.reads_empty_images = [](const Operator&) { return true; };
  return pool;
}();

constexpr OperatorDefinition kReduceDefinition = [] {
  OperatorDefinition reduce{"reduce"};
  reduce.shape = [](const Operator&, const Shapes& in) -> StatusOr<Shape> {
    if (in[0].back() < 1) {
      return NotAsWanted(in[0], "have at least one channel");
    }
    Shape output = in[0];
    output.back() = 1;
    return output;
  };
  return reduce;
}();

}  // namespace ios

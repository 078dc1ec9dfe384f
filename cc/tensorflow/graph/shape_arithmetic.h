// A graph's arithmetic on its tensors' shapes, as expressions that hold for
// every size of its inputs: they tell where a resized image's size comes from.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_ARITHMETIC_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_ARITHMETIC_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"

namespace ios::tf {

// factor * (the size of dimension `axis` of `tensor`) + offset. Dimensions of a
// tensor that is channels_first() are counted as in [N,H,W,C], too. Where
// `tensor` is one of integers, its element number `axis` takes the place of the
// size: all that is known is that two are equal.
struct SizeExpression {
  TensorRef tensor;
  int axis = 0;
  int64_t factor = 0;  // 0 of a constant
  int64_t offset = 0;

  bool constant() const { return factor == 0; }
  // Whether both are multiples of the same dimension, or constants.
  bool SameDimension(const SizeExpression& other) const {
    return constant() ? other.constant()
                      : !other.constant() && tensor == other.tensor &&
                            axis == other.axis;
  }
};

inline bool operator==(const SizeExpression& a, const SizeExpression& b) {
  return a.factor == b.factor && a.offset == b.offset && a.SameDimension(b);
}

using SizeExpressions = std::vector<std::optional<SizeExpression>>;

// The elements of an integer tensor; null for what is no such expression. Empty
// if not even their number is known.
SizeExpressions ReadSizes(GraphIndex* graph, TensorRef tensor);

// The tensor whose dimensions stand for those of `tensor`: the sequence that is
// expanded to an image, say.
TensorRef SizesFrom(const GraphIndex& graph, TensorRef tensor);

// The dimensions of a floating-point tensor, in the order of the graph; empty
// unless they are known or depend on the size of the graph's inputs alone.
SizeExpressions SizesOf(GraphIndex* graph, TensorRef tensor);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_ARITHMETIC_H_

// Represents a graph's arithmetic on shapes as expressions that are correct for
// all sizes of the inputs. They show, for example, which tensor's size
// determines the size of a resized image.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_ARITHMETIC_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_ARITHMETIC_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/tensorflow/shapes/analyzed_graph.h"

namespace ios::tf {

// The value factor * (size of dimension `axis` of `tensor`) + offset. `axis` is
// an index into [N,H,W,C], even if `tensor` has another layout. If `tensor` is
// an integer tensor, its element number `axis` is used instead of a size; such
// an expression only serves to find equal values.
struct SizeExpression {
  TensorRef tensor;
  int axis = 0;
  int64_t factor = 0;  // 0 for a constant
  int64_t offset = 0;

  bool constant() const { return factor == 0; }
  // Returns whether both expressions depend on the same dimension, or both are
  // constants.
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

// Returns the elements of an integer tensor as expressions. An element is
// nullopt if it cannot be written as a SizeExpression. Returns an empty list if
// the number of elements is unknown.
SizeExpressions ReadSizes(AnalyzedGraph* graph, TensorRef tensor);

// Returns the tensor whose dimensions an expression for `tensor` should use:
// usually `tensor`; for an image that was expanded from a sequence, the
// sequence.
TensorRef SizesFrom(const AnalyzedGraph& graph, TensorRef tensor);

// Returns expressions for the dimensions of a floating-point tensor, in the
// graph's order. Returns an empty list if the dimensions depend on anything
// except the sizes of the graph's inputs.
SizeExpressions SizesOf(AnalyzedGraph* graph, TensorRef tensor);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_ARITHMETIC_H_

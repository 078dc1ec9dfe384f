// Represents a graph's arithmetic on shapes as expressions that hold for all
// sizes of its inputs. These expressions show where the size of a resized image
// comes from.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_ARITHMETIC_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_ARITHMETIC_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/tensorflow/shapes/analyzed_graph.h"

namespace ios::tf {

// The value factor * (the size of dimension `axis` of `tensor`) + offset.
// `axis` counts the dimensions of [N,H,W,C], even if `tensor` is
// channels_first(). If `tensor` holds integers, its element `axis` takes the
// place of the size. Such an expression only shows that two values are equal.
struct SizeExpression {
  TensorRef tensor;
  int axis = 0;
  int64_t factor = 0;  // 0 for a constant
  int64_t offset = 0;

  bool constant() const { return factor == 0; }
  // Returns whether both depend on the same dimension or both are constants.
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

// Returns the elements of an integer tensor, with nullopt for elements that are
// not such expressions. Returns an empty list if even the number of elements is
// unknown.
SizeExpressions ReadSizes(AnalyzedGraph* graph, TensorRef tensor);

// Returns the tensor whose dimensions stand for those of `tensor`, such as a
// sequence that is expanded to the image `tensor`.
TensorRef SizesFrom(const AnalyzedGraph& graph, TensorRef tensor);

// Returns the dimensions of a floating-point tensor, in the order of the graph.
// Returns an empty list unless the dimensions are known or depend only on the
// sizes of the graph's inputs.
SizeExpressions SizesOf(AnalyzedGraph* graph, TensorRef tensor);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_ARITHMETIC_H_

// Upper bounds for untrusted documents. They are far larger than any network
// needs, but products and sums of a few such numbers still fit into 64 bits.
#ifndef IOS_TF_CC_CORE_LIMITS_H_
#define IOS_TF_CC_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace ios {

// A JSON document: its size, and the nesting depth of its brackets.
inline constexpr size_t kMaxDocumentBytes = size_t{16} << 20;
inline constexpr int kMaxDocumentDepth = 32;

// The operators of a block, and their inputs. The planner compares every
// operator with every other one.
inline constexpr size_t kMaxOperators = 10000;
inline constexpr size_t kMaxOperatorInputs = 1000;
inline constexpr size_t kMaxReferences = 100000;  // inputs of all operators

// A dimension, and every integer among an operator's attributes.
inline constexpr int64_t kMaxDimension = int64_t{1} << 30;
// The height and width of an image that Pad or Resize writes. These operators
// store the source of each row and column.
inline constexpr int64_t kMaxMapped = int64_t{1} << 24;
// The elements of a tensor or a weight, ignoring dimensions of 0.
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
// Flops() of one operator. This much work takes days.
inline constexpr int64_t kMaxFlops = int64_t{1} << 53;
// The height and width of a window. A larger window is allowed if it is at most
// twice as large as the image.
inline constexpr int64_t kMaxKernel = 4096;
// The cells of a merged convolution's window.
inline constexpr int64_t kMaxMergedCells = 4096;

// The product of non-negative numbers, or the largest int64_t on overflow.
inline int64_t SaturatingProduct(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  bool overflows = false;
  for (int64_t factor : factors) {
    if (factor == 0) return 0;
    overflows |= __builtin_mul_overflow(product, factor, &product);
  }
  return overflows ? std::numeric_limits<int64_t>::max() : product;
}

}  // namespace ios

#endif  // IOS_TF_CC_CORE_LIMITS_H_

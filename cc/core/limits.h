// Limits: how large what others wrote may be. They lie far above what networks
// have, and low enough for products and sums of a few such numbers to fit into
// 64 bits.
#ifndef IOS_TF_CC_CORE_LIMITS_H_
#define IOS_TF_CC_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace ios {

// Of a JSON document: its bytes, and how deep its brackets nest.
inline constexpr size_t kMaxDocumentBytes = size_t{16} << 20;
inline constexpr int kMaxDocumentDepth = 32;

// Of a block. What plans it compares every operator with every other.
inline constexpr size_t kMaxOperators = 10000;
inline constexpr size_t kMaxOperatorInputs = 1000;
inline constexpr size_t kMaxReferences = 100000;  // of all operators' inputs

// Of a dimension, and of every whole number among an operator's attributes.
inline constexpr int64_t kMaxDimension = int64_t{1} << 30;
// Of an image where for each row and column it is noted what it is made of.
inline constexpr int64_t kMaxMapped = int64_t{1} << 24;
// Of a tensor or a weight, not counting dimensions of 0.
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
// Multiply-adds of one operator: days.
inline constexpr int64_t kMaxFlops = int64_t{1} << 53;
// Of a window, where it is more than twice as large as the image.
inline constexpr int64_t kMaxKernel = 4096;
// Of the window that convolutions of different sizes become when they are
// merged.
inline constexpr int64_t kMaxMergedCells = 4096;

// The product of numbers that are not negative, or the largest number there is.
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

// Upper bounds for untrusted documents. They are far larger than any network
// needs, but products and sums of a few such numbers still fit into 64 bits.
#ifndef IOS_TF_CC_CORE_LIMITS_H_
#define IOS_TF_CC_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace ios {

// The size of a JSON document in bytes, and the nesting depth of its brackets.
inline constexpr size_t kMaxDocumentBytes = size_t{16} << 20;
inline constexpr int kMaxDocumentDepth = 32;

// The number of operators of a block, of inputs per operator, and of inputs of
// all operators. The first is limited because the planner compares every
// operator with every other one.
inline constexpr size_t kMaxOperators = 10000;
inline constexpr size_t kMaxOperatorInputs = 1000;
inline constexpr size_t kMaxReferences = 100000;  // inputs of all operators

// The largest dimension of a tensor, and the largest integer among an
// operator's attributes.
inline constexpr int64_t kMaxDimension = int64_t{1} << 30;
// The largest height and width of an image that Pad or Resize writes. These
// operators store a table with one entry per row and column.
inline constexpr int64_t kMaxMapped = int64_t{1} << 24;
// The largest number of elements of a tensor or a weight. Dimensions of 0 count
// as 1.
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
// A tensor on a GPU has fewer elements than this, because the CUDA kernels
// compute indices in 31 bits.
inline constexpr int64_t kMaxGpuElements = int64_t{1} << 31;
// The largest value of Flops() of one operator. A CPU needs days for this many
// operations.
inline constexpr int64_t kMaxFlops = int64_t{1} << 53;
// The largest height and width of a window. A larger window is allowed if it is
// at most twice as large as the image.
inline constexpr int64_t kMaxKernel = 4096;
// The largest product of height and width of a merged convolution's window.
inline constexpr int64_t kMaxMergedCells = 4096;

// Returns the product of non-negative numbers, or the largest int64_t on
// overflow.
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

// Blocks of a product of bfloat16 matrices, in the ways that processors
// multiply bfloat16 numbers (see BFloat16Products).
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_BLOCK_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_BLOCK_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/bfloat16.h"

namespace ios::cpu {

// The largest block that is computed at once.
constexpr int64_t kBlockPixels = 32, kPanel = 32;
// The number of filters in a tile. A panel consists of tiles, and the factors
// of the filters of a tile lie next to each other.
constexpr int64_t kTile = 16;
// The largest number of channels of a step, which is even.
constexpr int64_t kMostDepth = 32;

// A block of the product. Each sum adds cells times factors, over all steps and
// channels. The first cell of a step lies offsets[step] elements after the
// position of the pixel.
struct ProductBlock {
  const BFloat16* cells = nullptr;
  int64_t pitch = 0;  // elements between the positions of neighbouring pixels
  int64_t pixels = 0;
  const int64_t* offsets = nullptr;  // of each step
  int64_t steps = 0, depth = 0;
  // [steps][kPanel / kTile][depth / 2][kTile][2]
  const BFloat16* factors = nullptr;
  // Factors that are needed later. Each step prefetches `ahead_lines` cache
  // lines of these factors.
  const BFloat16* ahead = nullptr;
  int64_t ahead_lines = 0;
  int64_t filters = 0;
  float* sums = nullptr;  // [pixels][kPanel]
};

// Neighbouring rows of sums, to which bias, residual and activation are
// applied. The rows of a tensor are `..._pitch` elements apart.
struct FinishedRows {
  int64_t count = 0;
  const float* sums = nullptr;         // [count][kPanel]
  const float* bias = nullptr;         // null for none
  const BFloat16* residual = nullptr;  // null for none
  int64_t residual_pitch = 0;
  int64_t filters = 0;
  Activation::Kind activation = Activation::kNone;  // or kRelu, or kRelu6
  void* output = nullptr;
  int64_t output_pitch = 0;
  bool narrows = true;  // whether the output is bfloat16, not float32
};

// Computes blocks on the calling thread while it exists. (The registers of AMX
// are configured for one thread, and must be released.)
class BlockMultiplier {
 public:
  // All blocks must have steps of `depth` channels.
  explicit BlockMultiplier(int64_t depth) : depth_(depth) {}
  ~BlockMultiplier();
  BlockMultiplier(const BlockMultiplier&) = delete;
  BlockMultiplier& operator=(const BlockMultiplier&) = delete;

  void Multiply(const ProductBlock& block);

 private:
  const int64_t depth_;
  int64_t pixels_ =
      0;  // for which the registers are configured; 0: they are not
};

void FinishRows(const FinishedRows& rows);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_BLOCK_H_

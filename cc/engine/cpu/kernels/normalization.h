// Kernels that take channels together: reductions, normalisations, shuffles.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"
#include "cc/engine/cpu/scratch.h"

namespace ios::cpu {

// Of each pixel's channels; `to` has one.
void ReduceChannels(const Source& x, PoolKind kind, const Target& to);

// exp(x) / sum(exp(x)) of each pixel's channels.
void Softmax(const Source& x, const Target& to);

// (x - mean) / sqrt(variance + epsilon) * scale[c] + shift[c].
struct Normalization {
  float epsilon = 0;
  const float* scale = nullptr;
  const float* shift = nullptr;
};

// With the mean and variance of each pixel's groups of channels.
void NormalizePixels(const Source& x, int64_t groups,
                     const Normalization& normalization, const Target& to);

// The same of each image's groups of channels. The result does not depend on
// the number of threads.
class ImageNorm {
 public:
  ImageNorm() = default;
  ImageNorm(const TensorView& x, const TensorView& to, int64_t groups);

  int64_t scratch_floats() const { return scratch_.floats(); }
  void Run(const Source& x, const Normalization& normalization,
           const Target& to, float* scratch) const;

 private:
  // Rows that are summed in float32, by one thread.
  static constexpr int64_t kChunkRows = 64;

  // Calls function(chunk, its first row, its rows) for each chunk of an image.
  template <typename Function>
  void ForChunks(const Function& function) const;
  // The mean of the sums of a group, of all chunks and pixels of rows.
  double MeanOf(const float* sums, int64_t group) const;
  // Sets the channels of a group in a row to value(channel).
  template <typename Function>
  void Fill(float* row, int64_t group, const Function& value) const;

  int64_t channels_ = 0, groups_ = 1;
  int64_t pixels_ = 0;  // of an image
  int64_t repeat_ = 1;  // pixels of a row
  int64_t chunks_ = 0;  // of an image
  ScratchLayout scratch_;
  int64_t sums_ = 0, means_ = 0, factors_ = 0, shifts_ = 0;  // in scratch
};

// Channel j * groups + g of the result is channel g * (C / groups) + j of x.
void ShuffleChannels(const Source& x, int64_t groups, const Target& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_

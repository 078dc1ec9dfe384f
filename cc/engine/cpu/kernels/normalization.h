// Kernels that combine channels: reductions, softmax, normalisations, shuffles.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/scratch_layout.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// Reduces all channels of each pixel to one channel, as `kind` says. `to` has
// one channel.
template <typename T>
void ReduceChannels(const SourceOf<T>& x, PoolKind kind, const TargetOf<T>& to);

// Computes exp(x) / sum(exp(x)), where the sum is over the channels of a pixel.
template <typename T>
void Softmax(const SourceOf<T>& x, const TargetOf<T>& to);

// The parameters of a norm: (x - mean) / sqrt(variance + epsilon) * scale[c] +
// shift[c] for channel c.
struct Normalization {
  float epsilon = 0;
  const float* scale = nullptr;
  const float* shift = nullptr;
};

// Normalises with the mean and variance of each group of channels of each
// pixel.
template <typename T>
void NormalizePixels(const SourceOf<T>& x, int64_t groups,
                     const Normalization& normalization, const TargetOf<T>& to);

// Normalises with the mean and variance of each group of channels of each
// image. The result does not depend on the number of threads.
class ImageNorm {
 public:
  ImageNorm() = default;
  ImageNorm(const TensorView& x, const TensorView& to, int64_t groups);

  int64_t scratch_floats() const { return scratch_.floats(); }
  template <typename T>
  void Run(const SourceOf<T>& x, const Normalization& normalization,
           const TargetOf<T>& to, float* scratch) const;

 private:
  // The number of rows of a chunk, which one thread sums in float32.
  static constexpr int64_t kChunkRows = 64;

  // Calls function(chunk, index of its first row, number of its rows) for each
  // chunk of an image.
  template <typename Function>
  void ForChunks(const Function& function) const;
  // Returns the mean of a group of channels. `sums` has the sums of all chunks,
  // for each pixel of a row.
  double MeanOf(const float* sums, int64_t group) const;
  // Sets all numbers of a row that belong to the group to value(channel).
  template <typename Function>
  void Fill(float* row, int64_t group, const Function& value) const;

  int64_t channels_ = 0, groups_ = 1;
  int64_t pixels_ = 0;  // of an image
  int64_t repeat_ = 1;  // number of pixels in a row
  int64_t chunks_ = 0;  // of an image
  ScratchLayout scratch_;
  int64_t sums_ = 0, means_ = 0, factors_ = 0, shifts_ = 0;  // in scratch
};

// Shuffles channels: channel j * groups + g of the result is channel g * (C /
// groups) + j of x.
template <typename T>
void ShuffleChannels(const SourceOf<T>& x, int64_t groups,
                     const TargetOf<T>& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_

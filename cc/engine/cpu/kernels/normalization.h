// Kernels that take channels together: reductions, normalisations, shuffles.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/kernels.h"

namespace ios::cpu {

// Of each pixel's channels; `to` has one.
void ReduceChannels(const Source& x, PoolKind kind, const Target& to);

// (x - mean) / sqrt(variance + epsilon) * scale[c] + shift[c], with the mean
// and variance of each pixel's channels or, for `whole_images`, of each image's
// groups of channels.
void Normalize(const Source& x, bool whole_images, int64_t groups,
               float epsilon, const float* scale, const float* shift,
               const Target& to);

// Channel j * groups + g of the result is channel g * (C / groups) + j of x.
void ShuffleChannels(const Source& x, int64_t groups, const Target& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_NORMALIZATION_H_

// Kernels that move cells of an image or combine neighbouring channels. Each
// kernel divides its work among the threads of the current lane. The elements T
// are float or BFloat16.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// Computes OperatorType::kPad.
template <typename T>
void Pad(const SourceOf<T>& x, const Operator& op, const TargetOf<T>& to);

// DepthToSpace turns groups of channels into blocks of `block_size` x
// `block_size` cells. SpaceToDepth is its inverse.
template <typename T>
void DepthToSpace(const SourceOf<T>& x, int64_t block_size,
                  const TargetOf<T>& to);
template <typename T>
void SpaceToDepth(const SourceOf<T>& x, int64_t block_size,
                  const TargetOf<T>& to);

// Computes OperatorType::kLrn.
template <typename T>
void LocalResponseNormalization(const SourceOf<T>& x, const Operator& op,
                                const TargetOf<T>& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_

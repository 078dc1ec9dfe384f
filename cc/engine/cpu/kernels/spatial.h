// Kernels that move cells of an image or combine neighbouring channels. Each
// kernel divides its work among the threads of the current lane.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// Computes OperatorType::kPad.
void Pad(const Source& x, const Operator& op, const Target& to);

// DepthToSpace turns groups of channels into blocks of `block_size` x
// `block_size` cells. SpaceToDepth is its inverse.
void DepthToSpace(const Source& x, int64_t block_size, const Target& to);
void SpaceToDepth(const Source& x, int64_t block_size, const Target& to);

// Computes OperatorType::kLrn.
void LocalResponseNormalization(const Source& x, const Operator& op,
                                const Target& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_

// The CPU backend's own kernels that move cells between an image's dimensions
// or look at neighbouring channels. Each splits its work over the current lane.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// OperatorType::kPad.
void Pad(const Source& x, const Operator& op, const Target& to);

// Groups of channels become blocks of `block_size` x `block_size` cells.
void DepthToSpace(const Source& x, int64_t block_size, const Target& to);
void SpaceToDepth(const Source& x, int64_t block_size, const Target& to);

// OperatorType::kLrn.
void LocalResponseNormalization(const Source& x, const Operator& op,
                                const Target& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_SPATIAL_H_

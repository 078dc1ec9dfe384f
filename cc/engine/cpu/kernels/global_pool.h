// The kernel of global pools, which reduce each image to one pixel.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_GLOBAL_POOL_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_GLOBAL_POOL_H_

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// Pools over height and width. The shape of `to` is [N,1,1,C] or [N,C].
// T is float or BFloat16.
template <typename T>
void GlobalPool(const SourceOf<T>& x, PoolKind kind, const TargetOf<T>& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_GLOBAL_POOL_H_

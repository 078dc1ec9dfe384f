// Sizes that kernels assume for the caches of a core.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_CACHES_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_CACHES_H_

#include <cstdint>

namespace ios::cpu {

constexpr int64_t kLineBytes = 64;  // of a cache line

// The factors of a convolution stay in the L2 cache, beside the pixels that are
// multiplied with them, if they have at most this many bytes.
constexpr int64_t kFactorBytes = 512 << 10;

// An input or output of at most this many bytes stays in the L2 cache.
constexpr int64_t kImageBytes = 1 << 20;

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_CACHES_H_

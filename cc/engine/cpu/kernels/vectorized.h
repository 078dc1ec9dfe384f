// A macro for functions of kernels.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_VECTORIZED_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_VECTORIZED_H_

// Marks a function that is always inlined into its callers.
#define IOS_INLINE inline __attribute__((always_inline))

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_VECTORIZED_H_

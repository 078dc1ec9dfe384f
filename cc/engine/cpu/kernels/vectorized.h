// Macros that compile one function body for several instruction sets.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_VECTORIZED_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_VECTORIZED_H_

// The loader picks the clone for the machine it runs on.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(IOS_TF_ONE_INSTRUCTION_SET)
#define IOS_VECTORIZED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define IOS_VECTORIZED
#endif

// Marks functions that an IOS_VECTORIZED function calls. They must be inlined,
// because other functions are compiled for one instruction set only.
#define IOS_INLINE inline __attribute__((always_inline))

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_VECTORIZED_H_

// Compiles the kernels of a source file once for each instruction set. The
// source file includes this header, and this header includes the source file
// again for each instruction set. (The header foreach_target.h of the library
// Highway works in the same way.) A source file with kernels has this form:
//
//   #include "all headers that the source needs"
//
//   #define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/name_of_this_source.cc"
//   #include "cc/engine/cpu/kernels/foreach_target.h"
//
//   #ifdef IOS_TARGET  // compiled for each instruction set
//
//   namespace ios::cpu::IOS_TARGET {
//   namespace {
//   void Kernel(...) {...}
//   }  // namespace
//   }  // namespace ios::cpu::IOS_TARGET
//
//   #else  // compiled once
//
//   namespace ios::cpu {
//   ... IOS_DISPATCH(Kernel)(...) ...
//   }  // namespace ios::cpu
//
//   #endif  // IOS_TARGET
//
// Whenever this header includes the source file, it defines these macros:
//   IOS_TARGET        the namespace: baseline, avx2 or avx512
//   IOS_VECTOR_BYTES  the size of a register
// The part inside of `#ifdef IOS_TARGET` may use the instruction set. So two
// rules apply to this part:
// * It does not include a header with an include guard. The linker might choose
//   the functions that such a header defines for the whole program, and
//   processors without the instruction set could not run them.
// * Functions that take or return registers are defined in this part, or in a
//   header without a guard ("-inl.h") that this part includes.
//
// This header does not have an include guard, because several source files may
// be compiled as one. However, two source files that include the same "-inl.h"
// must be compiled separately.

#ifndef IOS_TARGET  // true only in the first pass over the source file

#include "cc/engine/cpu/kernels/dispatch.h"

#ifdef __x86_64__

// Mark functions, in the part that is compiled once, for the instructions that
// multiply bfloat16 numbers (see BFloat16Products).
#define IOS_AVX512_BF16 \
  __attribute__((       \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))
#define IOS_AMX __attribute__((target("amx-tile,amx-bf16,avx512f")))

// GCC gets the names of architectures. Clang gets a list of their features,
// because options on Clang's command line could otherwise switch some of the
// features off.
#define IOS_TARGET avx512
#define IOS_VECTOR_BYTES 64
#ifdef __clang__
#pragma clang attribute push(                                            \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl," \
                          "avx2,bmi,bmi2,f16c,fma,lzcnt,movbe"))),       \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#endif
#include IOS_KERNEL_SOURCE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef IOS_VECTOR_BYTES
#undef IOS_TARGET

#define IOS_TARGET avx2
#define IOS_VECTOR_BYTES 32
#ifdef __clang__
#pragma clang attribute push(                                      \
    __attribute__((target("avx2,bmi,bmi2,f16c,fma,lzcnt,movbe"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#endif
#include IOS_KERNEL_SOURCE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef IOS_VECTOR_BYTES
#undef IOS_TARGET

#endif  // __x86_64__

// The baseline is the instruction set that the command line allows: SSE2 on
// x86.
#define IOS_TARGET baseline
#define IOS_VECTOR_BYTES 16
#include IOS_KERNEL_SOURCE
#undef IOS_VECTOR_BYTES
#undef IOS_TARGET

#undef IOS_KERNEL_SOURCE

#endif  // IOS_TARGET

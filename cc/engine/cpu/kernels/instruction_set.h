// Decides which instruction set the kernels of this process use.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

namespace ios::cpu {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// Returns the best instruction set that the processor has and that oneDNN may
// use: the environment variable ONEDNN_MAX_CPU_ISA limits both oneDNN and the
// kernels. The result never changes.
InstructionSet BestInstructionSet() noexcept;

// How the processor multiplies bfloat16 numbers.
enum class BFloat16Products {
  kNone,     // as float32, to which the numbers are converted
  kVectors,  // AVX512_BF16: a register of float32 sums at a time
  kTiles,    // AMX-BF16: a matrix at a time
};

// Returns the fastest way that the processor has and that oneDNN may use. The
// result never changes.
BFloat16Products BestBFloat16Products() noexcept;

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

// Decides which instruction set the kernels of this process use.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

namespace ios::cpu {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// Returns the best instruction set that the processor has and that oneDNN may
// use: the environment variable ONEDNN_MAX_CPU_ISA limits both oneDNN and the
// kernels. The result never changes.
InstructionSet BestInstructionSet() noexcept;

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

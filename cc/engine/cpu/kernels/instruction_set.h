// The instruction set whose form of the kernels this process runs.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

namespace ios::cpu {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// Returns the best set that the processor has and that oneDNN may use.
// ONEDNN_MAX_CPU_ISA limits it. Only this function decides which instructions
// the kernels use. Its result never changes.
InstructionSet BestInstructionSet() noexcept;

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

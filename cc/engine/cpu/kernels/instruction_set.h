// The instruction set for kernels that have separate code for several sets.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

#include <dnnl.hpp>

namespace ios::cpu {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// Returns the best set that oneDNN may use. ONEDNN_MAX_CPU_ISA limits it.
inline InstructionSet BestInstructionSet() {
  static const InstructionSet best = [] {
    const auto has = [](dnnl::cpu_isa isa) {
      const auto bits = static_cast<unsigned>(isa);
      return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) ==
             bits;
    };
    if (has(dnnl::cpu_isa::avx512_core)) return InstructionSet::kAvx512;
    if (has(dnnl::cpu_isa::avx2)) return InstructionSet::kAvx2;
    return InstructionSet::kBaseline;
  }();
  return best;
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_INSTRUCTION_SET_H_

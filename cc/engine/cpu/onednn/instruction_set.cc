#include "cc/engine/cpu/kernels/instruction_set.h"

#include "cc/engine/cpu/onednn/onednn.h"

namespace ios::cpu {
namespace {

bool OneDnnMayUse(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

InstructionSet FindBestInstructionSet() {
#ifdef __x86_64__
  // Our kernels use some instructions for which oneDNN does not check. A
  // virtual machine may hide them.
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2")) {
    return InstructionSet::kBaseline;
  }
  if (OneDnnMayUse(dnnl::cpu_isa::avx512_core) &&
      __builtin_cpu_supports("avx512cd")) {
    return InstructionSet::kAvx512;
  }
  if (OneDnnMayUse(dnnl::cpu_isa::avx2)) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBaseline;
}

}  // namespace

InstructionSet BestInstructionSet() noexcept {
  static const InstructionSet best = FindBestInstructionSet();
  return best;
}

}  // namespace ios::cpu

#include "cc/engine/cpu/kernels/instruction_set.h"

#include <sys/syscall.h>
#include <unistd.h>

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

// Asks the system to let this process use the registers of AMX.
bool MayUseTiles() {
#ifdef __x86_64__
  constexpr unsigned long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

BFloat16Products FindBestBFloat16Products() {
  if (BestInstructionSet() != InstructionSet::kAvx512 ||
      !OneDnnMayUse(dnnl::cpu_isa::avx512_core_bf16)) {
    return BFloat16Products::kNone;
  }
  return OneDnnMayUse(dnnl::cpu_isa::avx512_core_amx) && MayUseTiles()
             ? BFloat16Products::kTiles
             : BFloat16Products::kVectors;
}

}  // namespace

BFloat16Products BestBFloat16Products() noexcept {
  static const BFloat16Products best = FindBestBFloat16Products();
  return best;
}

InstructionSet BestInstructionSet() noexcept {
  static const InstructionSet best = FindBestInstructionSet();
  return best;
}

}  // namespace ios::cpu

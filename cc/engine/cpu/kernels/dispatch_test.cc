// Checks that IOS_DISPATCH calls the form for the best instruction set.
#include "cc/engine/cpu/kernels/dispatch.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/cc/testing.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/dispatch_test.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

int64_t VectorBytes() { return IOS_VECTOR_BYTES; }

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

TEST(CallsTheFormForTheBestInstructionSet) {
  int64_t expected = 16;
  if (BestInstructionSet() == InstructionSet::kAvx2) expected = 32;
  if (BestInstructionSet() == InstructionSet::kAvx512) expected = 64;
  // The first call selects the form that later calls use.
  for (int call = 0; call < 3; ++call) {
    EXPECT(IOS_DISPATCH(VectorBytes)() == expected);
  }
}

TEST(TheEnvironmentLimitsTheInstructionSet) {
  const char* const variable = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string limit = variable ? variable : "";
  const InstructionSet best = BestInstructionSet();
  if (limit == "AVX2") EXPECT(best != InstructionSet::kAvx512);
  if (limit == "SSE41") EXPECT(best == InstructionSet::kBaseline);
}

}  // namespace
}  // namespace ios::cpu

#endif  // IOS_TARGET

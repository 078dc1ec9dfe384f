// Calls the version ("form") of a function that is compiled for the processor's
// instruction set (see foreach_target.h).
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_DISPATCH_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_DISPATCH_H_

#include <atomic>

#include "cc/engine/cpu/kernels/instruction_set.h"

// Marks a function that is always inlined into its callers.
#define IOS_INLINE inline __attribute__((always_inline))

namespace ios::cpu {

// The forms of a function: one for each instruction set. IOS_DISPATCH calls the
// pointer `selected`. It points to SelectAndCall() at first, and then to the
// form for the best instruction set.
template <auto baseline, auto avx2, auto avx512>
struct Forms;

template <typename Result, typename... Arguments,
          Result (*baseline)(Arguments...), Result (*avx2)(Arguments...),
          Result (*avx512)(Arguments...)>
struct Forms<baseline, avx2, avx512> {
  using Function = Result (*)(Arguments...);

  static Function ForBestInstructionSet() noexcept {
    switch (BestInstructionSet()) {
      case InstructionSet::kAvx512:
        return avx512;
      case InstructionSet::kAvx2:
        return avx2;
      case InstructionSet::kBaseline:
        break;
    }
    return baseline;
  }

  // Selects the form for the best instruction set for all later calls, and
  // calls this form.
  static Result SelectAndCall(Arguments... arguments) {
    const Function best = ForBestInstructionSet();
    selected.store(best, std::memory_order_relaxed);
    return best(arguments...);
  }

  static inline std::atomic<Function> selected = SelectAndCall;
};

}  // namespace ios::cpu

// IOS_DISPATCH(Function)(arguments) calls the form of `Function` for
// BestInstructionSet(). It costs as much as a call through a function pointer.
#ifdef __x86_64__
#define IOS_DISPATCH(...)                                        \
  (::ios::cpu::Forms<&baseline::__VA_ARGS__, &avx2::__VA_ARGS__, \
                     &avx512::__VA_ARGS__>::selected             \
       .load(std::memory_order_relaxed))
#else
#define IOS_DISPATCH(...) (&baseline::__VA_ARGS__)
#endif

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_DISPATCH_H_

// ScratchLayout: how a kernel or a task divides its scratch memory.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_SCRATCH_LAYOUT_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_SCRATCH_LAYOUT_H_

#include <cstdint>

namespace ios::cpu {

// Distance, in floats, between areas that different threads write again and
// again. At less than 8 KiB, a core that prefetches takes cache lines away from
// the other core. That cost a third of the time when it was measured.
constexpr int64_t kApart = 2048;

// Rounds up to whole cache lines.
inline int64_t WholeLines(int64_t floats) { return (floats + 15) / 16 * 16; }

// Hands out pieces of a task's scratch memory, as offsets in floats.
class ScratchLayout {
 public:
  int64_t Take(int64_t floats) {
    const int64_t offset = floats_;
    floats_ += WholeLines(floats);
    return offset;
  }
  int64_t floats() const { return floats_; }

 private:
  int64_t floats_ = 0;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_SCRATCH_LAYOUT_H_

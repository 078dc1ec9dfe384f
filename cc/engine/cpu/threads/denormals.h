// DenormalsAreZero: makes a thread treat denormal floats as zero.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_DENORMALS_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_DENORMALS_H_

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace ios::cpu {

// While an object exists, its thread treats denormal floats as 0, as
// TensorFlow's threads do. Some processors take over a hundred cycles for each
// denormal. On processors other than x86, this class does nothing.
class DenormalsAreZero {
 public:
#ifdef __SSE__
  DenormalsAreZero() : saved_(_mm_getcsr()) {
    constexpr unsigned kResults = 0x8000, kOperands = 0x0040;
    _mm_setcsr(saved_ | kResults | kOperands);
  }
  ~DenormalsAreZero() { _mm_setcsr(saved_); }
#else
  DenormalsAreZero() {}
#endif
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

#ifdef __SSE__
 private:
  const unsigned saved_;
#endif
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_DENORMALS_H_

// Tensors that kernels read and write: their address and their layout.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_VIEWS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_VIEWS_H_

#include <cstdint>

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

struct Source {
  const float* data = nullptr;
  TensorView view;
};
struct Target {
  float* data = nullptr;
  TensorView view;
};

inline const float* At(const Source& s, int64_t pixel, int64_t channel) {
  return s.data + pixel * s.view.pitch + channel;
}
inline float* At(const Target& t, int64_t pixel, int64_t channel) {
  return t.data + pixel * t.view.pitch + channel;
}

// Work is divided such that each thread gets at least this many floats.
constexpr int64_t kGrainFloats = 4096;

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_VIEWS_H_

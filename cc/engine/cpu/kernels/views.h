// Tensors that kernels read and write: their address and their layout.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_VIEWS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_VIEWS_H_

#include <cstdint>

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

// T is the type of the elements: float or BFloat16.
template <typename T>
struct SourceOf {
  const T* data = nullptr;
  TensorView view;
};
template <typename T>
struct TargetOf {
  T* data = nullptr;
  TensorView view;
};
using Source = SourceOf<float>;
using Target = TargetOf<float>;

template <typename T>
const T* At(const SourceOf<T>& s, int64_t pixel, int64_t channel) {
  return s.data + pixel * s.view.pitch + channel;
}
template <typename T>
T* At(const TargetOf<T>& t, int64_t pixel, int64_t channel) {
  return t.data + pixel * t.view.pitch + channel;
}

// Work is divided such that each thread gets at least this many floats.
constexpr int64_t kGrainFloats = 4096;

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_VIEWS_H_

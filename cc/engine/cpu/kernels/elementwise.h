// Elementwise kernels for pitched tensors, which oneDNN's primitives do not
// support. Each kernel divides its work among the threads of the current lane.
// The elements T are float or BFloat16. Kernels compute in float32, and round
// each result once.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

template <typename T = float>
void Copy(const SourceOf<T>& from, const TargetOf<T>& to);
// Applies an activation. `to` may be `x`.
template <typename T = float>
void Activate(const SourceOf<T>& x, Activation activation,
              const TargetOf<T>& to);
template <typename T = float>
void Add(const std::vector<SourceOf<T>>& terms, Activation activation,
         const TargetOf<T>& to);
// Computes activation(function(x, y)). `to` has the shape to which x and y
// broadcast. X and Y are T, or one of them is float.
template <typename X, typename Y, typename T>
void Binary(BinaryFunction function, const SourceOf<X>& x, const SourceOf<Y>& y,
            Activation activation, const TargetOf<T>& to);
// Computes activation(x * scale[c] + shift[c]) for each channel c.
template <typename T>
void Scale(const SourceOf<T>& x, const float* scale, const float* shift,
           Activation activation, const TargetOf<T>& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_

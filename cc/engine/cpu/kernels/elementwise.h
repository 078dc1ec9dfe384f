// Elementwise kernels for pitched tensors, which oneDNN's primitives do not
// support. Each kernel splits its work over the current lane.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

void Copy(const Source& from, const Target& to);
// `to` may be `x`.
void Activate(const Source& x, Activation activation, const Target& to);
void Add(const std::vector<Source>& terms, Activation activation,
         const Target& to);
// `to` has the shape that x and y broadcast to.
void Binary(BinaryFunction function, const Source& x, const Source& y,
            Activation activation, const Target& to);
// x * scale[c] + shift[c].
void Scale(const Source& x, const float* scale, const float* shift,
           Activation activation, const Target& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_

// Elementwise kernels for pitched tensors, which oneDNN's primitives do not
// support. Each kernel divides its work among the threads of the current lane.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

void Copy(const Source& from, const Target& to);
// Applies an activation. `to` may be `x`.
void Activate(const Source& x, Activation activation, const Target& to);
void Add(const std::vector<Source>& terms, Activation activation,
         const Target& to);
// Computes activation(function(x, y)). `to` has the shape to which x and y
// broadcast.
void Binary(BinaryFunction function, const Source& x, const Source& y,
            Activation activation, const Target& to);
// Computes activation(x * scale[c] + shift[c]) for each channel c.
void Scale(const Source& x, const float* scale, const float* shift,
           Activation activation, const Target& to);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_ELEMENTWISE_H_

// Converts tensors between data types.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_CONVERT_TENSOR_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_CONVERT_TENSOR_H_

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

// Copies a tensor to one of another data type. Rounds to the nearest number,
// and to the even one if two are equally near. The work is divided among the
// threads of the current lane.
void ConvertTensor(const void* from, const TensorView& from_view, void* to,
                   const TensorView& to_view);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_CONVERT_TENSOR_H_

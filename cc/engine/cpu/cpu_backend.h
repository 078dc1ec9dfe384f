// The CPU backend: oneDNN primitives and the kernels of kernels.h on lanes.
// Activations are fp32, channels last.
#ifndef IOS_TF_CC_ENGINE_CPU_CPU_BACKEND_H_
#define IOS_TF_CC_ENGINE_CPU_CPU_BACKEND_H_

#include "cc/engine/backend.h"

namespace ios::cpu {

Backend* CpuBackend();  // one for the process, never destroyed

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_CPU_BACKEND_H_

// The CPU backend: runs oneDNN primitives and the kernels in kernels/ on lanes
// of threads (threads/lanes.h). Tensors are float32 with channels last.
#ifndef IOS_TF_CC_ENGINE_CPU_CPU_BACKEND_H_
#define IOS_TF_CC_ENGINE_CPU_CPU_BACKEND_H_

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

Backend* CpuBackend();  // one per process, never destroyed

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_CPU_BACKEND_H_

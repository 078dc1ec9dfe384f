#include "cc/engine/backend.h"

#include "cc/engine/cpu/cpu_backend.h"

namespace ios {
void* TensorLocation::In(const std::vector<const void*>& inputs,
                         const std::vector<void*>& outputs, void* arena) const {
  switch (kind) {
    case kInput:
      return static_cast<char*>(const_cast<void*>(inputs[index])) + offset;
    case kOutput:
      return static_cast<char*>(outputs[index]) + offset;
    case kArena:
      return static_cast<char*>(arena) + offset;
  }
  return nullptr;
}

StatusOr<Backend*> GetBackend(const std::string& device) {
  if (device == "cpu") return cpu::CpuBackend();
  return NotFound("there is no device '" + device +
                  "'; known: cpu, cuda, cuda:1, …, each GPU also with ,tf32=0");
}

}  // namespace ios

#include "cc/engine/backend.h"

#include "cc/engine/cpu/cpu_backend.h"

namespace ios {

StatusOr<Backend*> GetBackend(const std::string& device) {
  if (device == "cpu") return cpu::CpuBackend();
  return NotFound("there is no device '" + device + "'; known: cpu");
}

}  // namespace ios

#include "cc/engine/devices.h"

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/cpu_backend.h"
#include "cc/engine/cpu/threads/cores.h"
#include "cc/engine/cuda/cuda_backend.h"

namespace ios {
namespace {

constexpr char kGpu[] = "gpu";
constexpr char kNoTf32[] = ",tf32=off";

}  // namespace

StatusOr<Backend*> GetBackend(const std::string& device,
                              DeviceAllocator* allocator) {
  if (device == "cpu") return cpu::CpuBackend();
  if (device.rfind(kGpu, 0) == 0) {
    std::string rest = device.substr(sizeof(kGpu) - 1);
    bool tf32 = true;
    const size_t option = rest.find(',');
    if (option != std::string::npos && rest.substr(option) == kNoTf32) {
      tf32 = false;
      rest.resize(option);
    }
    if (rest.empty()) return cuda::CudaBackend(0, tf32, allocator);
    const std::string digits = rest.substr(1);
    if (rest[0] == ':' && !digits.empty() && digits.size() < 5 &&
        digits.find_first_not_of("0123456789") == std::string::npos) {
      return cuda::CudaBackend(std::stoi(digits), tf32, allocator);
    }
  }
  return NotFound("there is no device '" + device +
                  "'. Use cpu, gpu, gpu:1, … To switch TF32 off, append "
                  ",tf32=off to the name of a GPU");
}

int64_t FailedCaptures() { return cuda::FailedCaptures(); }

void AddLibraryDirectory(const std::string& directory) {
  cuda::AddLibraryDirectory(directory);
}

void AllowThreads(int threads) { cpu::AllowThreads(threads); }

StatusOr<int> LaneCount(const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  return backend->traits().lanes;
}

StatusOr<bool> LanesDivideDevice(const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  return backend->traits().lanes_divide_device;
}

StatusOr<bool> HasBFloat16(const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  return backend->traits().has_bfloat16;
}

StatusOr<std::string> DeviceFingerprint(const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  return backend->Fingerprint();
}

std::string DeviceDirectory(const std::string& fingerprint) {
  std::string name;
  for (char c : fingerprint) {
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
        (c >= '0' && c <= '9') || c == '.') {
      name += c;
    } else if (name.empty() || name.back() != '_') {
      name += '_';
    }
  }
  const size_t first = name.find_first_not_of("_.");
  if (first == std::string::npos) return "device";
  return name.substr(first, name.find_last_not_of("_.") - first + 1);
}

}  // namespace ios

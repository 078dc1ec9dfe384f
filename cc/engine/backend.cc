#include "cc/engine/backend.h"

#include <algorithm>

#include "cc/engine/cpu/cpu_backend.h"
#include "cc/engine/cuda/cuda_backend.h"
#include "cc/engine/devices.h"

namespace ios {
namespace {

constexpr char kGpu[] = "gpu";
constexpr char kNoTf32[] = ",tf32=off";

}  // namespace

void ShiftTensors(int by, std::vector<BoundStage>* stages) {
  for (BoundStage& stage : *stages) {
    for (std::vector<BoundTask>& group : stage.groups) {
      for (BoundTask& task : group) {
        for (int& input : task.inputs) input += by;
        task.output += by;
      }
    }
  }
}

bool TaskSpec::reads_nothing() const {
  // With `size_from_last_input`, only the size of the last input matters.
  const auto end = inputs.end() - (op->size_from_last_input ? 1 : 0);
  return std::any_of(inputs.begin(), end, [](const TensorView& view) {
    return NumElements(view.shape) == 0;
  });
}

void* TensorLocation::In(const std::vector<const void*>& inputs,
                         const std::vector<void*>& outputs, void* arena) const {
  void* base = arena;
  if (kind == kInput) base = const_cast<void*>(inputs[index]);
  if (kind == kOutput) base = outputs[index];
  // A tensor without elements may have a null address.
  return base ? static_cast<char*>(base) + offset : nullptr;
}

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
                  "'; devices are cpu, gpu, gpu:1, …; a GPU's name may end in "
                  ",tf32=off");
}

int64_t FailedCaptures() { return cuda::FailedCaptures(); }

void AddLibraryDirectory(const std::string& directory) {
  cuda::AddLibraryDirectory(directory);
}

}  // namespace ios

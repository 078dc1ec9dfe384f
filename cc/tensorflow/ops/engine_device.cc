#include "cc/tensorflow/ops/engine_device.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/engine/devices.h"
#include "cc/tensorflow/graph/placement.h"
#include "tensorflow/core/common_runtime/gpu/gpu_id_manager.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "xla/stream_executor/stream.h"

namespace ios::tf {
namespace {

using ::stream_executor::Stream;
using ::tensorflow::Allocator;

class TensorFlowMemory : public DeviceAllocator {
 public:
  TensorFlowMemory(Allocator* allocator, Stream* stream)
      : allocator_(allocator), stream_(stream) {}

  void* Allocate(int64_t bytes) override {
    // A failed allocation is not retried (unlike in TensorFlow's kernels),
    // because the engine can often continue with less memory.
    const tensorflow::AllocationAttributes once(
        /*retry_on_failure=*/false, /*allocation_will_be_logged=*/false,
        /*freed_by_func=*/nullptr);
    void* const memory = allocator_->AllocateRaw(kAlignment, bytes, once);
    // Waits for TensorFlow's stream: its work may still use the memory, which
    // TensorFlow has freed early, and the engine's streams do not wait for it.
    if (memory && !stream_->BlockHostUntilDone().ok()) {
      allocator_->DeallocateRaw(memory);
      return nullptr;
    }
    return memory;
  }

  void Free(void* memory) override { allocator_->DeallocateRaw(memory); }

 private:
  static constexpr size_t kAlignment = 256;

  Allocator* const allocator_;
  Stream* const stream_;
};

// Returns the engine's name for the GPU that has this number in CUDA, with the
// current state of TensorFlow's switch for TF32.
std::string Gpu(int ordinal) {
  return absl::StrCat(
      "gpu:", ordinal,
      tensorflow::tensor_float_32_execution_enabled() ? "" : ",tf32=off");
}

}  // namespace

std::string FirstGpu() {
  tsl::PlatformDeviceId ordinal(0);
  const absl::Status known = tensorflow::GpuIdManager::TfToPlatformDeviceId(
      tsl::TfDeviceId(0), &ordinal);
  return Gpu(known.ok() ? ordinal.value() : 0);
}

absl::StatusOr<std::string> EngineDevice(
    tensorflow::OpKernelConstruction* context) {
  std::string wanted;
  TF_RETURN_IF_ERROR(context->GetAttr("device", &wanted));
  const bool gpu = context->device_type() == tensorflow::DEVICE_GPU;
  if (wanted != (gpu ? kGpu : kCpu)) {
    return absl::InvalidArgumentError(
        absl::StrCat(context->def().op(), " is made for the ", wanted,
                     ", but it is placed on the ", gpu ? kGpu : kCpu));
  }
  if (!gpu) {
    if (const auto* pool = context->device()->tensorflow_cpu_worker_threads()) {
      AllowThreads(pool->num_threads);
    }
    return std::string("cpu");
  }
  const auto* info = context->device()->tensorflow_accelerator_device_info();
  if (!info || info->gpu_id < 0) {
    return absl::FailedPreconditionError(
        "TensorFlow's device does not report which GPU it uses");
  }
  return Gpu(info->gpu_id);
}

DeviceAllocator* EngineAllocator(tensorflow::OpKernelConstruction* context) {
  if (context->device_type() != tensorflow::DEVICE_GPU) return nullptr;
  Allocator* const allocator =
      context->device()->GetAllocator(tensorflow::AllocatorAttributes());
  Stream* const stream =
      context->device()->tensorflow_accelerator_device_info()->stream;
  // The key is the GPU's allocator and stream in TensorFlow, which both live as
  // long as the process.
  static std::mutex mutex;
  static auto* const all =
      new std::map<std::pair<Allocator*, Stream*>, TensorFlowMemory*>;
  std::lock_guard<std::mutex> lock(mutex);
  TensorFlowMemory*& memory = (*all)[{allocator, stream}];
  if (!memory) memory = new TensorFlowMemory(allocator, stream);
  return memory;
}

}  // namespace ios::tf

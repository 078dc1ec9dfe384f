#include "cc/engine/cuda/cuda_backend.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/engine/cuda/cudnn/cudnn_handle.h"
#include "cc/engine/cuda/cudnn/plan_cache.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/execution.h"
#include "cc/engine/cuda/lane_set.h"
#include "cc/engine/cuda/parameter.h"
#include "cc/engine/cuda/slices.h"
#include "cc/engine/cuda/tasks.h"
#include "cc/engine/cuda/timing/measure_work.h"

namespace ios::cuda {
namespace {

// The largest number of lanes.
constexpr int kMaxLanes = 16;
// The number of hardware queues to which the driver assigns streams, unless
// $CUDA_DEVICE_MAX_CONNECTIONS is set to another number.
constexpr int kConnections = 8;

// Returns the number of lanes. If a stage has more groups, several groups run
// on one lane. If there were more lanes than queues, work of one lane could
// wait for work of another lane in the same queue.
int Lanes() {
  const char* const text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int connections = text ? std::atoi(text) : 0;
  return std::min(connections > 0 ? connections : kConnections, kMaxLanes);
}

// The revision that is part of Backend::Fingerprint.
constexpr int kRevision = 4;

// Returns whether the operator's kernels read pitched views without a copy. Our
// own kernels do, including the depthwise convolution with one filter per
// channel. cuDNN also accepts pitched views, but nearly all of its engines
// first copy them, once for each reader.
bool ReadsPitched(const Operator& op) {
  return op.type != OperatorType::kConv2DTranspose &&
         op.type != OperatorType::kMatMul &&
         (op.type != OperatorType::kConv2D ||
          (op.groups > 1 && op.filters == op.groups));
}

// The number of bytes that one thread reads or writes at a time. cuDNN's
// engines that use tensor cores need pixels whose size is a multiple of this,
// and pad other tensors on each call.
constexpr int64_t kVectorBytes = 16;

// See DeviceTraits::execution_bytes: one part of the GPU's memory in this many.
// The arena of InceptionV3 in float16 has 4 MiB per image, so its executions of
// the batch sizes 1 to 22 fit into this part of 16 GiB.
constexpr int64_t kExecutionShare = 16;

DeviceTraits MakeTraits(const Device* device, bool tf32) {
  DeviceTraits traits;
  traits.reads_pitched = ReadsPitched;
  traits.slice_bytes = kVectorBytes;
  traits.lanes = Lanes();
  traits.measures_when_compiling = true;
  traits.execution_bytes = device->memory_bytes() / kExecutionShare;
  for (DataType dtype :
       {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const bool exact = dtype == DataType::kFloat32 &&
                       (!tf32 || device->compute_capability() < 80);
    traits.channel_multiples[static_cast<size_t>(dtype)] =
        exact ? 1 : kVectorBytes / SizeOf(dtype);
  }
  return traits;
}

class Cuda : public Backend {
 public:
  Cuda(Device* device, bool tf32)
      : device_(device), tf32_(tf32), traits_(MakeTraits(device, tf32)) {}

  std::string Fingerprint() const override {
    const int64_t cudnn = CudnnVersion(device_);
    return device_->name() + ", CUDA " + std::to_string(device_->cuda_major()) +
           ", cuDNN " + std::to_string(cudnn / 10000) + "." +
           std::to_string(cudnn / 100 % 100) + "." +
           std::to_string(cudnn % 100) + ", revision " +
           std::to_string(kRevision) + (tf32_ ? "" : ", no TF32");
  }

  Status Supports(const Block& block) const override {
    if (!block.input_dtypes.empty() || !block.output_dtypes.empty()) {
      return Unimplemented(
          "on a GPU, all tensors of a block must have the same data type");
    }
    if (block.dtype == DataType::kBFloat16 &&
        device_->compute_capability() < 80) {
      return Unimplemented(
          "dtype 'bfloat16' needs compute capability 8.0 or above, but " +
          device_->name() + " has " +
          std::to_string(device_->compute_capability() / 10) + "." +
          std::to_string(device_->compute_capability() % 10));
    }
    return Status();
  }

  const DeviceTraits& traits() const override { return traits_; }

  StatusOr<std::shared_ptr<Parameter>> MakeParameter(
      const ConstArray& array) override {
    return std::shared_ptr<Parameter>(
        std::make_shared<CudaParameter>(device_, array));
  }

  StatusOr<std::unique_ptr<Task>> Compile(const TaskSpec& spec) override {
    const Device::Scope scope(device_);
    return CompileTask(device_, tf32_, spec);
  }

  StatusOr<std::unique_ptr<Execution>> Load(BoundSchedule schedule,
                                            ScheduleBinding) override {
    PlanCache::Get().Save();
    return LoadExecution(device_, std::move(schedule));
  }

  StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) override {
    return device_->Allocate(bytes);
  }

  void* HostCallStream() const override { return device_->lasting_stream(); }

  Status Upload(const void* host, int64_t bytes, void* device) override {
    return device_->Upload(host, bytes, device);
  }

  Status Download(const void* device, int64_t bytes, void* stream,
                  void* host) override {
    const auto cuda_stream = static_cast<CUstream>(stream);
    const Device::Scope scope(device_);
    if (bytes > 0) {
      IOS_CUDA_RETURN_IF_ERROR(device_, cuMemcpyDtoHAsync, host,
                               reinterpret_cast<CUdeviceptr>(device), bytes,
                               cuda_stream);
    }
    IOS_CUDA_RETURN_IF_ERROR(device_, cuStreamSynchronize, cuda_stream);
    return Status();
  }

  bool SharesHostMemory() const override { return false; }

  StatusOr<std::vector<std::vector<Sample>>> Measure(
      const std::vector<MeasuredCaller>& callers,
      const Measurement& measurement) override {
    if (callers.size() > 1) {
      return Unimplemented(
          "schedules for several callers are supported only on a CPU, but this "
          "device is a GPU. Use callers=1");
    }
    PlanCache::Get().Save();
    const auto& candidates = callers[0].candidates;
    const std::vector<void*>& tensors = *callers[0].tensors;
    const Device::Scope scope(device_);
    LaneNeeds needs;
    std::vector<std::vector<BoundStage>> joined;
    std::vector<std::vector<std::unique_ptr<Task>>> tasks;
    for (const auto* stages : candidates) {
      joined.push_back(*stages);
      IOS_ASSIGN_OR_RETURN(auto of_candidate,
                           JoinSlices(device_, &joined.back()));
      tasks.push_back(std::move(of_candidate));
      needs.Add(joined.back());
    }
    IOS_ASSIGN_OR_RETURN(const LaneSet lanes, LaneSet::Create(device_, needs));
    std::vector<Enqueuer> works;
    for (const auto& stages : joined) {
      works.push_back([&lanes, &tensors, &stages](CUstream stream) {
        return lanes.Enqueue(stages, tensors, stream);
      });
    }
    WorkMeasurement how;
    how.samples = measurement.repeat;
    how.least_runs = measurement.number;
    how.warmup = measurement.warmup;
    return SampleWork(device_, works, how);
  }

 private:
  Device* const device_;
  const bool tf32_;
  const DeviceTraits traits_;
};

}  // namespace

StatusOr<Backend*> CudaBackend(int ordinal, bool tf32,
                               DeviceAllocator* allocator) {
  static std::mutex mutex;
  static auto* backends = new std::map<std::pair<Device*, bool>, Cuda*>;
  IOS_ASSIGN_OR_RETURN(Device* const device, Device::Get(ordinal, allocator));
  std::lock_guard<std::mutex> lock(mutex);
  Cuda*& backend = (*backends)[{device, tf32}];
  if (!backend) backend = new Cuda(device, tf32);
  return backend;
}

void AddLibraryDirectory(const std::string& directory) {
  Libraries::AddDirectory(directory);
}

}  // namespace ios::cuda

// Devices by their names: their backends and properties.
#ifndef IOS_TF_CC_ENGINE_DEVICES_H_
#define IOS_TF_CC_ENGINE_DEVICES_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"

namespace ios {

class Backend;
class DeviceAllocator;

// Returns the backend of `device`: "cpu", "gpu" (the first GPU) or "gpu:1" (GPU
// 1). With ",tf32=off" after the GPU's name, float32 is computed without TF32.
// All GPU memory comes from `allocator`, or from the driver if `allocator` is
// null. The process has one backend for each combination of device, TF32
// setting and allocator. Returns NotFound for other devices, and
// FailedPrecondition if the device's libraries are missing.
StatusOr<Backend*> GetBackend(const std::string& device,
                              DeviceAllocator* allocator = nullptr);

// Returns the number of lanes of `device`: CPU cores, or streams of a GPU.
StatusOr<int> LaneCount(const std::string& device);

// Returns DeviceTraits::lanes_divide_device of `device`: true for a CPU, whose
// lanes are cores; false for a GPU, whose lanes are CUDA streams.
StatusOr<bool> LanesDivideDevice(const std::string& device);

// Returns DeviceTraits::has_bfloat16 of `device`.
StatusOr<bool> HasBFloat16(const std::string& device);

// Limits the threads of the device "cpu" to the number that TensorFlow's own
// operators get; see AllowThreads in cc/engine/cpu/threads/cores.h. The
// environment variable IOS_TF_NUM_THREADS overrides the limit.
void AllowThreads(int threads);

// Returns a text that names everything that latencies on `device` depend on,
// for example "Intel(R) Xeon(R) Processor, 2 cores, AVX-512, oneDNN 3.2.0,
// revision 1".
StatusOr<std::string> DeviceFingerprint(const std::string& device);

// Returns the name of the device's directory in a schedule cache: the
// fingerprint, with one "_" for each run of characters other than ASCII
// letters, digits and dots.
std::string DeviceDirectory(const std::string& fingerprint);

// Returns how often this process could not create a CUDA graph and enqueued the
// kernels one by one instead.
int64_t FailedCaptures();

// Adds a directory in which to look for GPU libraries. The directory is ignored
// if the environment variable IOS_TF_CUDA_LIBRARIES names directories.
void AddLibraryDirectory(const std::string& directory);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_DEVICES_H_

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
// All GPU memory comes from `allocator`, or from the driver if it is null. The
// process has one backend for each combination of device, TF32 setting and
// allocator. Returns NotFound for other devices, and FailedPrecondition if the
// device's libraries are missing.
StatusOr<Backend*> GetBackend(const std::string& device,
                              DeviceAllocator* allocator = nullptr);

// The number of lanes of `device`.
StatusOr<int> LaneCount(const std::string& device);

// DeviceTraits::lanes_divide_device: true for CPU cores, false for CUDA
// streams.
StatusOr<bool> LanesDivideDevice(const std::string& device);

// Names everything that latencies on `device` depend on, for example "Intel(R)
// Xeon(R) Processor, 2 cores, AVX-512, oneDNN 3.2.0, revision 1".
StatusOr<std::string> DeviceFingerprint(const std::string& device);

// The name of the device's directory in a schedule cache. It has the
// fingerprint's ASCII letters, digits and dots, with one "_" for each run of
// other characters between them.
std::string DeviceDirectory(const std::string& fingerprint);

// The number of times that this process could not create a CUDA graph and
// enqueued the work kernel by kernel instead.
int64_t FailedCaptures();

// Adds a directory in which to look for GPU libraries. It is ignored if the
// environment variable IOS_TF_CUDA_LIBRARIES names directories.
void AddLibraryDirectory(const std::string& directory);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_DEVICES_H_

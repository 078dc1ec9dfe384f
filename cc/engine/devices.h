// Properties of devices, given their names; see GetBackend.
#ifndef IOS_TF_CC_ENGINE_DEVICES_H_
#define IOS_TF_CC_ENGINE_DEVICES_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"

namespace ios {

// The most lanes `device` has.
StatusOr<int> LaneCount(const std::string& device);

// DeviceTraits::lanes_divide_device: true of CPU cores, false of CUDA streams.
StatusOr<bool> LanesDivideDevice(const std::string& device);

// "Intel(R) Xeon(R) Processor, 2 cores, AVX-512, oneDNN 3.2.0, revision 1":
// what latencies on `device` depend on.
StatusOr<std::string> DeviceFingerprint(const std::string& device);

// The fingerprint as the name of the device's directory in a schedule cache:
// ASCII letters, digits and dots, with "_" for whatever lies between.
std::string DeviceDirectory(const std::string& fingerprint);

// How many times a CUDA graph could not be made, and work was enqueued kernel
// by kernel, in this process.
int64_t FailedCaptures();

// One more directory to look in for the libraries of GPUs, where others are not
// named by the environment's IOS_TF_CUDA_LIBRARIES.
void AddLibraryDirectory(const std::string& directory);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_DEVICES_H_

// Weights on the GPU, packed for the kernels that read them.
#ifndef IOS_TF_CC_ENGINE_CUDA_PARAMETER_H_
#define IOS_TF_CC_ENGINE_CUDA_PARAMETER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// A weight in the layouts that its tasks have requested. The host array is
// freed once the first layout exists; further layouts are made from an existing
// one.
class CudaParameter : public Parameter {
 public:
  enum class Layout {
    kPlain,  // the order of the given array
    kKrsc,   // filters first: [filters, kh, kw, C / groups]
    kCrsk,   // channels first: [C, kh, kw, filters]
  };

  CudaParameter(const Device* device, const ConstArray& array);

  // Returns the weight on the device with elements of `dtype`, which must be
  // the same in all calls. The device's context must be current. Waits for the
  // copy. Safe to call from many threads at once.
  StatusOr<std::shared_ptr<const void>> Packed(Layout layout, DataType dtype);

  // Keeps an object as long as the weight exists, for example a cuDNN plan that
  // was found for the weight. A program may drop an input shape and need its
  // plan again later.
  void Keep(std::shared_ptr<const void> object);

 private:
  // Elements of `dtype` on the host, in any layout.
  struct HostCopy {
    Layout layout = Layout::kPlain;
    std::vector<char> data;
  };
  StatusOr<HostCopy> ToHost(DataType dtype) const;

  const Device* const device_;
  const int64_t windows_, channels_,
      filters_;  // dimensions of [kh, kw, C / groups, filters]
  std::mutex mutex_;
  std::vector<float> given_;
  std::map<Layout, std::shared_ptr<const void>> packed_;
  std::set<std::shared_ptr<const void>> kept_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_PARAMETER_H_

// Weights on the GPU, packed for the kernels that read them.
#ifndef IOS_TF_CC_ENGINE_CUDA_PARAMETER_H_
#define IOS_TF_CC_ENGINE_CUDA_PARAMETER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// A weight in the layouts that its tasks have asked for. The array on the host
// goes once the first layout exists; others are made from that.
class CudaParameter : public Parameter {
 public:
  enum class Layout {
    kPlain,  // as it was given
    kKrsc,  // the last dimension, filters, first: [filters, kh, kw, C / groups]
    kCrsk,  // the channels first: [C, kh, kw, filters]
  };

  CudaParameter(const Device* device, const ConstArray& array);

  // The weight on the device as elements of `dtype`, which is the same for all
  // calls. Needs the device's context to be current; waits for the copy. Safe
  // to call from many threads at once.
  StatusOr<std::shared_ptr<const void>> Packed(Layout layout, DataType dtype);

 private:
  // Elements of `dtype` on the host, in any layout.
  struct HostCopy {
    Layout layout = Layout::kPlain;
    std::vector<char> data;
  };
  StatusOr<HostCopy> ToHost(DataType dtype) const;

  const Device* const device_;
  const int64_t windows_, channels_,
      filters_;  // of [kh, kw, C / groups, filters]
  std::mutex mutex_;
  std::vector<float> given_;
  std::map<Layout, std::shared_ptr<const void>> packed_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_PARAMETER_H_

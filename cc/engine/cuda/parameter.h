// Weights on the GPU, in the layouts of the kernels that read them.
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

// A weight in all layouts that tasks have requested. The host array is freed
// when the first layout exists; more layouts are made from an existing layout.
class CudaParameter : public Parameter {
 public:
  enum class Layout {
    kPlain,  // the order of the given array
    kKrsc,   // filters first: [filters, kh, kw, C / groups]
    kCrsk,   // channels first: [C, kh, kw, filters]
  };

  CudaParameter(const Device* device, const ConstArray& array);

  // Returns the weight on the device, with elements of `dtype`, which must be
  // the same in all calls. Waits until it is copied there. The device's context
  // must be current. Thread-safe.
  StatusOr<std::shared_ptr<const void>> Packed(Layout layout, DataType dtype);

  // Keeps an object alive as long as the weight exists. For example, a cuDNN
  // plan is kept because a program may drop an input shape and need the shape's
  // plan again later.
  void Keep(std::shared_ptr<const void> object);

 private:
  // A copy of the weight on the host, with elements of `dtype`.
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

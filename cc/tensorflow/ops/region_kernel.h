// Counts for tests of the kernels of IosRegion.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_REGION_KERNEL_H_
#define IOS_TF_CC_TENSORFLOW_OPS_REGION_KERNEL_H_

#include <cstdint>

namespace ios::tf {

// How often kernels of this process packed the weights of a region.
int64_t RegionPackings();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_REGION_KERNEL_H_

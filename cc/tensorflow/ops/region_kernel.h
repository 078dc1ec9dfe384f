// Counters of the IosRegion kernels, for tests.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_REGION_KERNEL_H_
#define IOS_TF_CC_TENSORFLOW_OPS_REGION_KERNEL_H_

#include <cstdint>

namespace ios::tf {

// Returns how often the kernels of this process have packed a region's weights.
int64_t RegionPackings();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_REGION_KERNEL_H_

// DevicePlacement: the type of device on which a node's operator runs.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_PLACEMENT_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_PLACEMENT_H_

#include <string>

#include "tensorflow/core/framework/node_def.pb.h"

namespace ios::tf {

inline constexpr char kCpu[] = "cpu";
inline constexpr char kGpu[] = "gpu";

struct DevicePlacement {
  // The type of device for nodes that do not name a device.
  std::string unplaced = kCpu;
  // The only type of device whose nodes become operators. If empty, nodes of
  // the CPU and of GPUs become operators.
  std::string only;

  // Returns kCpu, kGpu, or another type of device in lower case.
  std::string DeviceOf(const tensorflow::NodeDef& node) const;
  bool Takes(const std::string& device) const {
    return only.empty() ? device == kCpu || device == kGpu : device == only;
  }
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_PLACEMENT_H_

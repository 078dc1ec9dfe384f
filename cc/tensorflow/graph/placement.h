// DevicePlacement: the type of device on which a node's operator runs.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_PLACEMENT_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_PLACEMENT_H_

#include <string>

#include "tensorflow/core/framework/node_def.pb.h"

namespace ios::tf {

inline constexpr char kCpu[] = "cpu";
inline constexpr char kGpu[] = "gpu";

struct DevicePlacement {
  // The device of nodes that do not name one.
  std::string unplaced = kCpu;
  // The only device whose nodes are taken. If empty, nodes of the CPU and of
  // GPUs are taken.
  std::string only;

  // Returns kCpu, kGpu, or another type of device in lower case.
  std::string DeviceOf(const tensorflow::NodeDef& node) const;
  bool Takes(const std::string& device) const {
    return only.empty() ? device == kCpu || device == kGpu : device == only;
  }
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_PLACEMENT_H_

#include "cc/tensorflow/graph/placement.h"

#include "absl/strings/ascii.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace ios::tf {

std::string DevicePlacement::DeviceOf(const tensorflow::NodeDef& node) const {
  tensorflow::DeviceNameUtils::ParsedName name;
  if (!tensorflow::DeviceNameUtils::ParseFullName(node.device(), &name) ||
      !name.has_type) {
    return unplaced;
  }
  return absl::AsciiStrToLower(name.type);
}

}  // namespace ios::tf

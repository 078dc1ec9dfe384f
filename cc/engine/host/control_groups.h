// Control groups of Linux, which limit the resources of a process.
#ifndef IOS_TF_CC_ENGINE_HOST_CONTROL_GROUPS_H_
#define IOS_TF_CC_ENGINE_HOST_CONTROL_GROUPS_H_

#include <string>
#include <vector>

namespace ios {

// The directory of a control group, with files such as cpu.max.
struct ControlGroup {
  std::string directory;
  int version;  // 1 or 2; the names of the files depend on it
};

// Returns the control groups that limit `controller` (for example "cpu") for a
// process, and all parents of these groups, of versions 1 and 2. `groups` is
// the path of the process's file /proc/PID/cgroup, and `root` is
// /sys/fs/cgroup. Some of the returned directories may not exist.
std::vector<ControlGroup> ControlGroups(const std::string& groups,
                                        const std::string& root,
                                        const std::string& controller);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_CONTROL_GROUPS_H_

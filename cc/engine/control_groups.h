// Control groups: what a process may use of its machine.
#ifndef IOS_TF_CC_ENGINE_CONTROL_GROUPS_H_
#define IOS_TF_CC_ENGINE_CONTROL_GROUPS_H_

#include <string>
#include <vector>

namespace ios {

// A directory of files, such as cpu.max.
struct ControlGroup {
  std::string directory;
  int version;  // 1 or 2: what its files are called
};

// The group that limits `controller`, "cpu" say, for the process whose
// /proc/PID/cgroup is `groups`, and all those it is in, of both versions.
// `root` is /sys/fs/cgroup. Not every directory need be there.
std::vector<ControlGroup> ControlGroups(const std::string& groups,
                                        const std::string& root,
                                        const std::string& controller);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_CONTROL_GROUPS_H_

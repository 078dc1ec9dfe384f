#include "cc/engine/host/control_groups.h"

#include <fstream>
#include <sstream>

namespace ios {
namespace {

bool Names(const std::string& controllers, const std::string& controller) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

}  // namespace

std::vector<ControlGroup> ControlGroups(const std::string& groups,
                                        const std::string& root,
                                        const std::string& controller) {
  std::vector<ControlGroup> found;
  std::ifstream file(groups);
  std::string line;
  while (std::getline(file, line)) {  // "4:cpu,cpuacct:/a/b", "0::/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !Names(controllers, controller)) continue;
    // Version 1 has a directory for each set of controllers ("cpu,cpuacct"),
    // and a link to it for each controller ("cpu").
    const std::string mount = version == 2 ? root : root + "/" + controller;
    found.push_back({mount, version});
    std::string group = line.substr(second + 1);
    while (group.size() > 1) {
      found.push_back({mount + group, version});
      group.resize(group.rfind('/'));
    }
  }
  return found;
}

}  // namespace ios

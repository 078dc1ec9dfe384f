#include "cc/engine/host/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "cc/engine/host/control_groups.h"

namespace ios {
namespace {

// CheckHostMemory() allows requests for less memory without reading the
// system's files.
constexpr int64_t kMany = int64_t{256} << 20;

// Returns the number after `name` in a file with lines "name number", or -1 if
// the file does not contain `name`.
int64_t NumberIn(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t number;
    if (word == name) return file >> number ? number : -1;
  }
  return -1;
}

int64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number;
  return file >> number ? number : -1;
}

// Returns the number of bytes that the processes of a control group may still
// use, or the largest int64_t if the group has no limit or no files.
int64_t FreeOfGroup(const ControlGroup& group) {
  const bool new_names = group.version == 2;
  const auto file = [&](const char* name, const char* of_version_1) {
    return group.directory + "/memory." + (new_names ? name : of_version_1);
  };
  // The file with the limit may contain "max" instead of a number.
  const int64_t most = NumberIn(file("max", "limit_in_bytes"));
  const int64_t used = NumberIn(file("current", "usage_in_bytes"));
  if (most < 0 || used < 0) return std::numeric_limits<int64_t>::max();
  // Memory that caches files counts as free, because the kernel frees it when
  // memory is needed.
  const int64_t cached =
      NumberIn(file("stat", "stat"),
               new_names ? "inactive_file" : "total_inactive_file");
  const int64_t kept =
      std::max<int64_t>(used - std::max<int64_t>(cached, 0), 0);
  return std::max<int64_t>(most - kept, 0);
}

}  // namespace

int64_t FreeHostMemory(const std::string& proc, const std::string& root) {
  int64_t free = std::numeric_limits<int64_t>::max();
  const int64_t kibibytes = NumberIn(proc + "/meminfo", "MemAvailable:");
  if (kibibytes >= 0 && kibibytes < free / 1024) free = kibibytes * 1024;
  for (const ControlGroup& group :
       ControlGroups(proc + "/self/cgroup", root, "memory")) {
    free = std::min(free, FreeOfGroup(group));
  }
  return free;
}

Status CheckHostMemory(int64_t bytes) {
  if (bytes < kMany || bytes <= FreeHostMemory("/proc", "/sys/fs/cgroup")) {
    return Status();
  }
  return ResourceExhausted("out of memory: " + std::to_string(bytes) +
                           " bytes are needed, but fewer bytes are free");
}

}  // namespace ios

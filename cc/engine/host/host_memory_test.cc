// Tests how much host memory is reported as free.
#include "cc/engine/host/host_memory.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/cc/testing.h"

namespace ios {
namespace {

TEST(TheSmallestOfWhatTheMachineAndTheGroupLeave) {
  char name[] = "/tmp/ios_tf_memory_XXXXXX";
  const std::string root = mkdtemp(name);
  const auto write = [&](const std::string& file, const std::string& text) {
    std::ofstream(root + "/" + file) << text;
  };
  std::filesystem::create_directories(root + "/self");
  write("self/cgroup", "0::/\n");
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  EXPECT(FreeHostMemory(root, root) == kUnknown);
  write("meminfo", "MemTotal: 5000 kB\nMemAvailable:  3000 kB\n");
  EXPECT(FreeHostMemory(root, root) == 3000 * 1024);
  write("memory.max", "max\n");
  write("memory.current", "100\n");
  EXPECT(FreeHostMemory(root, root) == 3000 * 1024);
  write("memory.max", "1000\n");
  EXPECT(FreeHostMemory(root, root) == 900);
  write("memory.stat", "anon 1\ninactive_file 30\n");
  EXPECT(FreeHostMemory(root, root) == 930);
  write("memory.current", "2000\n");
  EXPECT(FreeHostMemory(root, root) == 0);
  write("memory.max", "nonsense");
  EXPECT(FreeHostMemory(root, root) == 3000 * 1024);
  std::system(("rm -r " + root).c_str());
}

TEST(TheGroupsThatTheProcessIsIn) {
  char name[] = "/tmp/ios_tf_memory_XXXXXX";
  const std::string root = mkdtemp(name);
  const auto write = [&](const std::string& file, const std::string& text) {
    const std::filesystem::path path = root + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  const auto free = [&] { return FreeHostMemory(root, root); };
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  write("self/cgroup", "0::/outer/inner\n");
  write("memory.max", "max\n");
  write("outer/memory.max", "5000\n");
  write("outer/memory.current", "1000\n");
  EXPECT(free() == 4000);
  write("outer/inner/memory.max", "2000\n");
  write("outer/inner/memory.current", "500\n");
  EXPECT(free() == 1500);
  write("outer/memory.current", "4900\n");
  EXPECT(free() == 100);
  write("beside/memory.max", "1\n");
  write("beside/memory.current", "0\n");
  EXPECT(free() == 100);
  // Control groups of version 1: each controller has its own groups.
  write("self/cgroup", "5:cpu,cpuacct:/cpus\n9:memory:/a/b\n1:name=x:/\n");
  EXPECT(free() == kUnknown);
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "70000\n");
  write("memory/a/memory.limit_in_bytes", "8000\n");
  write("memory/a/memory.usage_in_bytes", "6000\n");
  EXPECT(free() == 2000);
  write("memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 30\n");
  EXPECT(free() == 2030);
  write("memory/a/b/memory.limit_in_bytes", "3000\n");
  write("memory/a/b/memory.usage_in_bytes", "2990\n");
  EXPECT(free() == 10);
  write("memory/cpus/memory.limit_in_bytes", "0\n");
  EXPECT(free() == 10);
  std::filesystem::remove_all(root);
}

TEST(LittleIsAlwaysThereAndTooMuchNever) {
  EXPECT(CheckHostMemory(0).ok());
  EXPECT(CheckHostMemory(1 << 20).ok());
  EXPECT(CheckHostMemory(int64_t{1} << 60).code() ==
         StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ios

// Host memory: how much of it is free.
#include "cc/engine/host_memory.h"

#include <cstdint>
#include <cstdlib>
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

TEST(LittleIsAlwaysThereAndTooMuchNever) {
  EXPECT(CheckHostMemory(0).ok());
  EXPECT(CheckHostMemory(1 << 20).ok());
  EXPECT(CheckHostMemory(int64_t{1} << 60).code() ==
         StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ios

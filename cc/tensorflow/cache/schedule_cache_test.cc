// Tests that processes that store the same block at the same time store it only
// once, and that the number of stored blocks is limited.
#include "cc/tensorflow/cache/schedule_cache.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/core/ir/problem.h"
#include "cc/engine/devices.h"
#include "cc/tensorflow/cache/cache_file.h"
#include "cc/tensorflow/names.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

constexpr int kProcesses = 16, kBlocks = 8;

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  DIR* const open = opendir(directory.c_str());
  EXPECT(open != nullptr);
  if (!open) return names;
  while (const dirent* const entry = readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(open);
  return names;
}

// A new directory, which is removed at the end.
class Directory {
 public:
  Directory() { EXPECT(mkdtemp(path_.data()) != nullptr); }
  ~Directory() {
    const std::string command = absl::StrCat("rm -r ", path_);
    EXPECT(std::system(command.c_str()) == 0);
  }
  const std::string& path() const { return path_; }

  // The directory of blocks without a schedule.
  std::string pending() const {
    const StatusOr<std::string> fingerprint = DeviceFingerprint("cpu");
    EXPECT(fingerprint.ok());
    return absl::StrCat(path_, "/", kPending, "/",
                        DeviceDirectory(*fingerprint));
  }

 private:
  std::string path_ = "/tmp/schedule_cache_test_XXXXXX";
};

TEST(ManyProcessesStoreABlockOnce) {
  const Directory cache_directory;
  const std::string& directory = cache_directory.path();
  std::vector<Block> blocks;
  for (int k = 1; k <= kBlocks; ++k) {
    blocks.push_back(ios::testing::MakeBlock({ios::testing::Conv(-1, k, 3)},
                                             {0}, {1, 6, 5, 3}));
  }
  const absl::StatusOr<ScheduleCache> cache =
      ScheduleCache::Open(directory, "cpu");
  EXPECT(cache.ok());
  if (!cache.ok()) return;
  int start[2];  // the children begin when the parent closes this pipe
  EXPECT(pipe(start) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close(start[1]);
      char unused;
      while (read(start[0], &unused, 1) != 0) {
      }
      for (const Block& block : blocks) cache->AddPending(block);
      _exit(ScheduleCache::warnings());
    }
    children.push_back(child);
  }
  close(start[0]);
  close(start[1]);
  for (const pid_t child : children) {
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
  const std::string pending = cache_directory.pending();
  EXPECT(FilesIn(pending).size() == kBlocks);
  for (const Block& block : blocks) {
    const absl::StatusOr<std::string> content = ReadCacheFile(
        directory, absl::StrCat(pending, "/", Signature(block), ".json"));
    EXPECT(content.ok() && *content == *ProblemJson(block));
    // The block is stored already.
    EXPECT(!cache->AddPending(block));
  }
}

TEST(AThousandBlocksAreStored) {
  const Directory directory;
  const absl::StatusOr<ScheduleCache> cache =
      ScheduleCache::Open(directory.path(), "cpu");
  EXPECT(cache.ok());
  if (!cache.ok()) return;
  const auto block = [](int width) {
    return ios::testing::MakeBlock({ios::testing::Conv(-1, 1, 3)}, {0},
                                   {1, 6, width, 3});
  };
  constexpr int kMost = 1000;
  for (int k = 1; k <= kMost; ++k) EXPECT(cache->AddPending(block(k)));
  const int before = ScheduleCache::warnings();
  EXPECT(!cache->AddPending(block(kMost + 1)));
  EXPECT(!cache->AddPending(block(kMost + 2)));
  EXPECT(ScheduleCache::warnings() == before + 1);
  const std::string pending = directory.pending();
  EXPECT(FilesIn(pending).size() == kMost);
  // `ios_tf tune` removes a block after the search, so another block can be
  // stored.
  const std::string first =
      absl::StrCat(pending, "/", Signature(block(1)), ".json");
  EXPECT(std::remove(first.c_str()) == 0);
  EXPECT(cache->AddPending(block(kMost + 1)));
}

}  // namespace
}  // namespace ios::tf

// Tests that regions take schedules from the cache while the process runs, also
// in forked children.
#include "cc/tensorflow/ops/watched_region.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/cache/cache_file.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using ::ios::testing::Conv;
using ::ios::testing::Join;
using ::ios::testing::MakeBlock;
using ::ios::testing::Values;

// The number of forked children that end while their parent's background thread
// is busy.
constexpr int kForks = 20;
// Seconds until a forked child that hangs is killed.
constexpr int kPatience = 60;

// Returns a block of two convolutions of the input and their sum. It has
// several schedules, because the convolutions are independent.
Block TwoBranches() {
  return MakeBlock(
      {Conv(-1, 4, 1), Conv(-1, 4, 3), Join(OperatorType::kAdd, {0, 1})}, {2},
      {1, 6, 5, 3});
}

// A region that waits for a schedule, in an empty cache.
class Server {
 public:
  Server() : block_(TwoBranches()) {
    setenv("IOS_TF_REFRESH_SECONDS", "0.01", 1);
    std::string directory = "/tmp/watched_region_test_XXXXXX";
    EXPECT(mkdtemp(directory.data()) != nullptr);
    directory_ = directory;
    key_ = directory;
    region_ = Load();
  }
  ~Server() {
    region_->Detach();
    const std::string command = absl::StrCat("rm -r ", directory_);
    EXPECT(std::system(command.c_str()) == 0);
  }

  // Creates another kernel of the same node.
  std::shared_ptr<WatchedRegion> Load() {
    RegionWatch watch;
    watch.key = key_;
    watch.cache_dir = directory_;
    watch.engine_device = "cpu";
    watch.waits = true;
    watch.blocks.push_back({block_, std::nullopt});
    // The attribute of the node is JSON.
    StatusOr<RegionWatch> read = RegionWatchFromJson(ToJson(watch));
    EXPECT(read.ok());
    auto region = std::make_shared<WatchedRegion>(
        *std::move(read), block_, nullptr,
        [this](const Schedule& schedule) { return Build(schedule); });
    WatchedRegion::Register(region);
    return region;
  }

  void Write(const Schedule& schedule) {
    const std::string signature = Signature(block_);
    const std::string json = ios::ToJson(schedule);
    const absl::StatusOr<ScheduleCache> cache =
        ScheduleCache::Open(directory_, "cpu");
    EXPECT(cache.ok());
    // A schedule in a cache has a signature.
    EXPECT(WriteCacheFile(directory_, cache->PathOf(block_),
                          absl::StrCat("{\"signature\":\"", signature, "\",",
                                       json.substr(1)))
               .ok());
  }

  bool IsReady() const { return WatchedRegion::IsReady(key_, {{2, 6, 5, 3}}); }
  void WaitUntilReady() const {
    while (!IsReady()) usleep(1000);
  }

  WatchedRegion& region() { return *region_; }
  void Drop() { region_.reset(); }
  const Block& block() const { return block_; }
  bool builds() const { return builds_; }

 private:
  StatusOr<std::shared_ptr<Program>> Build(const Schedule& schedule) {
    builds_ = true;
    const std::vector<float> small = Values(3 * 4), large = Values(9 * 3 * 4);
    const Weights weights = {
        {{small.data(), {1, 1, 3, 4}}}, {{large.data(), {3, 3, 3, 4}}}, {}};
    IOS_ASSIGN_OR_RETURN(
        std::unique_ptr<Program> program,
        Program::Create(block_, {{LoadOf(block_), schedule}}, weights, "cpu"));
    builds_ = false;
    return std::shared_ptr<Program>(std::move(program));
  }

  const Block block_;
  std::string directory_, key_;
  std::shared_ptr<WatchedRegion> region_;
  std::atomic<bool> builds_{false};
};

WatchedRegion::State StateOf(const std::string& name) {
  for (const WatchedRegion::State& state : WatchedRegion::States()) {
    if (state.name == name) return state;
  }
  EXPECT(false);
  return {};
}

TEST(PeriodsComeFromTheEnvironment) {
  const char* const name = "IOS_TF_REFRESH_SECONDS";
  unsetenv(name);
  EXPECT(RefreshSeconds() == 60);
  for (const char* const wrong : {"", "often", "-1", "nan", "1e9", "5 s"}) {
    setenv(name, wrong, 1);
    EXPECT(RefreshSeconds() == 60);
  }
  setenv(name, "0.5", 1);
  EXPECT(RefreshSeconds() == 0.5);
  setenv(name, "0", 1);
  EXPECT(RefreshSeconds() == 0);
}

TEST(AWaitingRegionBecomesReady) {
  Server server;
  EXPECT(!server.IsReady());
  EXPECT(server.region().Current() == nullptr);
  const std::string name = server.block().operators[0].name;
  EXPECT(StateOf(name).waits && StateOf(name).missing == 1);
  server.Write(SequentialSchedule(server.block()));
  server.WaitUntilReady();
  const std::shared_ptr<Program> first = server.region().Current();
  EXPECT(first != nullptr);
  // The program is compiled for the shapes of earlier calls, too.
  EXPECT(first->PreparedShapes().size() == 2);
  const WatchedRegion::State state = StateOf(name);
  EXPECT(!state.waits && state.missing == 0 && state.picked_up == 1);
  EXPECT(state.blocks == 1 && state.oldest_ns > 0);

  // The same schedule again changes nothing, and another one replaces it.
  server.Write(SequentialSchedule(server.block()));
  server.Write(GreedySchedule(server.block()));
  while (server.region().Current() == first) usleep(1000);
  EXPECT(StateOf(name).picked_up == 2);
}

TEST(RegionsWithOneKeyBecomeReadyTogether) {
  Server server;
  server.Write(SequentialSchedule(server.block()));
  server.WaitUntilReady();
  const std::shared_ptr<WatchedRegion> other = server.Load();
  EXPECT(!server.IsReady());
  server.WaitUntilReady();
  EXPECT(other->Current() != nullptr);
  other->Detach();
  EXPECT(other->Current() == nullptr);
}

TEST(AForkedChildHasItsOwnThread) {
  Server server;
  EXPECT(!server.IsReady());  // starts the thread
  std::vector<pid_t> children;
  for (int i = 0; i < kForks; ++i) {
    // The thread is busy while the process forks.
    server.Write(i % 2 ? SequentialSchedule(server.block())
                       : GreedySchedule(server.block()));
    (void)server.IsReady();
    const pid_t child = fork();
    if (child == 0) {
      alarm(kPatience);
      server.WaitUntilReady();
      const std::shared_ptr<Program> before = server.region().Current();
      server.region().Detach();
      _exit(before ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
}

TEST(DetachWaitsForTheBuilder) {
  Server server;
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (int i = 0; !ends; ++i) {
      server.Write(i % 2 ? SequentialSchedule(server.block())
                         : GreedySchedule(server.block()));
      (void)server.IsReady();
    }
  });
  for (int i = 0; i < 20; ++i) {
    const std::shared_ptr<WatchedRegion> region = server.Load();
    while (!region->Current()) usleep(1000);
    region->Detach();
  }
  server.region().Detach();
  EXPECT(!server.builds());
  ends = true;
  writer.join();
}

}  // namespace
}  // namespace ios::tf

#include "cc/tensorflow/ops/watched_region.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cc/engine/host/fork_guard.h"
#include "cc/tensorflow/warn.h"
#include "tensorflow/core/platform/random.h"

namespace ios::tf {
namespace {

constexpr double kDefaultSeconds = 60, kMostSeconds = 1e6;
constexpr double kLeastSeconds = 0.01;
// The longest time that exit() waits for the background thread.
constexpr std::chrono::seconds kLongestExit(20);

std::atomic<int64_t> picked_up{0}, blocks_filled{0};

// All watched regions by their keys. Several WatchedRegions have the same key
// if TensorFlow creates several kernels from one node.
struct Registry {
  std::mutex mutex;
  std::multimap<std::string, std::weak_ptr<WatchedRegion>> regions;
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

std::vector<std::shared_ptr<WatchedRegion>> ExistingRegions() {
  std::vector<std::shared_ptr<WatchedRegion>> result;
  Registry& registry = TheRegistry();
  const ForkSafeLock lock(&registry.mutex);
  for (auto it = registry.regions.begin(); it != registry.regions.end();) {
    if (std::shared_ptr<WatchedRegion> region = it->second.lock()) {
      result.push_back(std::move(region));
      ++it;
    } else {
      it = registry.regions.erase(it);
    }
  }
  return result;
}

// The background thread of one process. It is never destroyed.
class RefreshThread {
 public:
  // Starts the thread of this process, unless it runs already.
  static void Start() {
    const int generation = ForkGeneration();
    int known = started.load(std::memory_order_relaxed);
    if (known == generation ||
        !started.compare_exchange_strong(known, generation)) {
      return;
    }
    auto* const thread = new RefreshThread;
    running = thread;
    try {
      std::thread([thread] { thread->Loop(); }).detach();
    } catch (const std::system_error&) {
      // Without a thread, the regions keep the schedules that they have.
      running = nullptr;
      delete thread;
      return;
    }
    // Runs before the destructors of static objects that exist now.
    std::atexit([] {
      if (started == ForkGeneration() && running) running.load()->End();
    });
  }

 private:
  void Loop() {
    pthread_setname_np(pthread_self(), "ios_tf_refresh");
    // The first look comes at a random time, and periods vary a little, so that
    // many processes do not look at the same moment.
    double wait = period_ * Random();
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::duration<double>(wait),
                              [this] { return ending_.load(); })) {
      lock.unlock();
      std::map<std::string, FileVersion> versions;
      for (const std::shared_ptr<WatchedRegion>& region : ExistingRegions()) {
        if (ending_) break;
        region->Refresh(&versions);
      }
      wait = period_ * (0.9 + 0.2 * Random());
      lock.lock();
    }
    ended_ = true;
    changed_.notify_all();
  }

  // Ends the thread and waits for it, because it calls libraries whose static
  // objects exit() destroys next.
  void End() {
    std::unique_lock<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kLongestExit, [this] { return ended_; });
  }

  // Returns a number from 0 to 1.
  static double Random() {
    return static_cast<double>(tensorflow::random::New64() >> 11) / (1ll << 53);
  }

  // ForkGeneration() of the process that started the latest thread.
  static inline std::atomic<int> started{-1};
  static inline std::atomic<RefreshThread*> running{nullptr};

  const double period_ = std::max(RefreshSeconds(), kLeastSeconds);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> ending_{false};
  bool ended_ = false;
};

}  // namespace

double RefreshSeconds() {
  const char* const text = std::getenv("IOS_TF_REFRESH_SECONDS");
  if (!text || !*text) return kDefaultSeconds;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && seconds >= 0 &&
      seconds <= kMostSeconds) {
    return seconds;
  }
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) {
    std::fprintf(stderr,
                 "ios_tf: IOS_TF_REFRESH_SECONDS=%s is not a number from 0 to "
                 "%.0f, so new schedules are looked for every %.0f s\n",
                 text, kMostSeconds, kDefaultSeconds);
  }
  return kDefaultSeconds;
}

RefreshCounts RefreshedSchedules() {
  return {picked_up.load(), blocks_filled.load()};
}

WatchedRegion::WatchedRegion(RegionWatch watch, Block block,
                             std::shared_ptr<Program> program, Builder build)
    : key_(std::move(watch.key)),
      cache_dir_(std::move(watch.cache_dir)),
      engine_device_(std::move(watch.engine_device)),
      block_(std::move(block)),
      build_(std::move(build)),
      blocks_(std::move(watch.blocks)),
      program_(std::move(program)) {}

void WatchedRegion::Register(const std::shared_ptr<WatchedRegion>& region) {
  Registry& registry = TheRegistry();
  const ForkSafeLock lock(&registry.mutex);
  registry.regions.emplace(region->key_, region);
}

void WatchedRegion::Detach() {
  {
    std::unique_lock<std::mutex> lock(building_mutex_);
    detached_ = true;
    // A forked child does not have the thread that its parent waits for.
    built_.wait(lock, [this] { return building_ != ForkGeneration(); });
  }
  std::shared_ptr<Program> program;  // destroyed after the mutex is released
  const ForkSafeLock lock(&mutex_);
  program.swap(program_);
}

void WatchedRegion::MarkAsCalled() {
  if (!called_.load(std::memory_order_relaxed)) {
    called_.store(true, std::memory_order_relaxed);
  }
  RefreshThread::Start();
}

std::shared_ptr<Program> WatchedRegion::Current() {
  MarkAsCalled();
  const ForkSafeLock lock(&mutex_);
  return program_;
}

bool WatchedRegion::IsReady(const std::string& key,
                            const std::vector<Shape>& inputs) {
  Registry& registry = TheRegistry();
  bool exists = false, ready = true;
  std::vector<std::shared_ptr<WatchedRegion>> regions;  // outlive the locks
  const ForkSafeLock lock(&registry.mutex);
  const auto [first, last] = registry.regions.equal_range(key);
  for (auto it = first; it != last; ++it) {
    regions.push_back(it->second.lock());
    WatchedRegion* const region = regions.back().get();
    if (!region) continue;
    exists = true;
    region->MarkAsCalled();
    std::lock_guard<std::mutex> region_lock(region->mutex_);
    if (region->program_) continue;
    ready = false;
    std::vector<std::vector<Shape>>& seen = region->seen_;
    if (inputs.empty() ||
        std::find(seen.begin(), seen.end(), inputs) != seen.end()) {
      continue;
    }
    // A program would not keep the executions of more shapes.
    if (seen.size() == kMaxExecutions) seen.erase(seen.begin());
    seen.push_back(inputs);
  }
  return exists && ready;
}

std::vector<WatchedRegion::State> WatchedRegion::States() {
  std::vector<State> states;
  for (const std::shared_ptr<WatchedRegion>& region : ExistingRegions()) {
    State& state = states.emplace_back();
    state.name = region->block_.operators[0].name;
    const ForkSafeLock lock(&region->mutex_);
    state.waits = !region->program_;
    state.picked_up = region->picked_up_;
    for (const WatchedBlock& watched : region->blocks_) {
      if (!watched.is_searched) continue;
      ++state.blocks;
      state.missing += !watched.is_cached;
      const int64_t modified_ns = watched.version.modified_ns;
      if (!watched.is_cached || modified_ns <= 0) continue;
      if (state.oldest_ns == 0 || modified_ns < state.oldest_ns) {
        state.oldest_ns = modified_ns;
      }
    }
  }
  return states;
}

void WatchedRegion::Refresh(std::map<std::string, FileVersion>* versions) {
  if (!called_.exchange(false)) return;
  {
    const ForkSafeLock lock(&building_mutex_);
    if (detached_) return;
    building_ = ForkGeneration();
  }
  const Status status = CatchExceptions([&] {
    LookIntoCache(versions);
    return Status();
  });
  if (!status.ok()) {
    Warn(Reason::kCacheFileIgnored,
         absl::StrCat("the region at '", block_.operators[0].name,
                      "' keeps its schedule: ", status.message()));
  }
  const ForkSafeLock lock(&building_mutex_);
  building_ = -1;
  built_.notify_all();
}

void WatchedRegion::LookIntoCache(
    std::map<std::string, FileVersion>* versions) {
  if (!cache_) {
    absl::StatusOr<ScheduleCache> opened =
        ScheduleCache::Open(cache_dir_, engine_device_);
    if (!opened.ok()) return;
    cache_ = *std::move(opened);
  }
  std::vector<WatchedBlock> blocks = blocks_;
  bool is_changed = false;
  for (WatchedBlock& watched : blocks) {
    if (!watched.is_searched) continue;
    const auto [known, is_new] =
        versions->try_emplace(cache_->PathOf(watched.block));
    if (is_new) known->second = cache_->Version(watched.block);
    const FileVersion& version = known->second;
    // The region keeps its schedule if the file has been removed.
    if (version == FileVersion() || version == watched.version) continue;
    is_changed = true;
    watched.version = version;
    std::optional<Schedule> schedule = cache_->Find(watched.block);
    if (!schedule) continue;
    watched.schedule = std::move(schedule);
    watched.is_cached = true;
  }
  if (is_changed) Adopt(std::move(blocks));
}

void WatchedRegion::Adopt(std::vector<WatchedBlock> blocks) {
  const std::optional<Schedule> before = JoinSchedules(blocks_);
  const std::optional<Schedule> after = JoinSchedules(blocks);
  const bool builds =
      after && !(before && ios::ToJson(*before) == ios::ToJson(*after));
  std::shared_ptr<Program> program;
  if (builds) {
    const Status valid = Validate(*after, block_);
    StatusOr<std::shared_ptr<Program>> built =
        valid.ok() ? Build(*after) : StatusOr<std::shared_ptr<Program>>(valid);
    if (built.ok()) {
      program = *std::move(built);
    } else if (built.status().code() != StatusCode::kFailedPrecondition) {
      // The engine returns FailedPrecondition if the process is exiting.
      Warn(Reason::kCacheFileIgnored,
           absl::StrCat("a new schedule of the region at '",
                        block_.operators[0].name,
                        "' is ignored: ", built.status().message()));
    }
  }
  int64_t filled = 0;
  const ForkSafeLock lock(&mutex_);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (builds && !program) {
      // Keeps the old schedules, but does not read the same files again.
      blocks_[i].version = blocks[i].version;
      continue;
    }
    filled += blocks[i].is_cached && !blocks_[i].schedule;
    blocks_[i] = std::move(blocks[i]);
  }
  blocks_filled += filled;
  if (!program) return;
  program_.swap(program);
  ++picked_up_;
  ++picked_up;
}

StatusOr<std::shared_ptr<Program>> WatchedRegion::Build(
    const Schedule& schedule) const {
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<Program> program, build_(schedule));
  // Compiles for all shapes in use, so that no call has to wait for a
  // compilation. Shapes that do not fit the block are ignored.
  std::vector<std::vector<Shape>> shapes = UsedShapes();
  for (auto it = shapes.rbegin(); it != shapes.rend(); ++it) {
    (void)program->Prepare(*it);
  }
  return program;
}

std::vector<std::vector<Shape>> WatchedRegion::UsedShapes() const {
  std::shared_ptr<Program> program;
  {
    const ForkSafeLock lock(&mutex_);
    if (!program_) return {seen_.rbegin(), seen_.rend()};
    program = program_;
  }
  return program->PreparedShapes();
}

}  // namespace ios::tf

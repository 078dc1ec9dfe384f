// WatchedRegion: a region that gets new schedules from the schedule cache while
// the process runs. A thread looks for them in the background.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_WATCHED_REGION_H_
#define IOS_TF_CC_TENSORFLOW_OPS_WATCHED_REGION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/program.h"
#include "cc/tensorflow/ops/region_watch.h"

namespace ios::tf {

// Returns the time between two looks at the schedule cache in seconds: the
// environment variable IOS_TF_REFRESH_SECONDS, or 60. 0 means that schedules
// are only read when a graph is loaded.
double RefreshSeconds();

// The schedules that regions have taken from the cache after they were loaded.
struct RefreshCounts {
  int64_t picked_up = 0;      // times that a region got a new schedule
  int64_t blocks_filled = 0;  // blocks that had no schedule before
};
RefreshCounts RefreshedSchedules();

// All functions may be called from any thread. fork() is allowed at any time: a
// child starts its own thread when it runs a region.
class WatchedRegion {
 public:
  // Creates a program that runs the region with the given schedule.
  using Builder =
      std::function<StatusOr<std::shared_ptr<Program>>(const Schedule&)>;

  struct State {
    std::string name;       // of the region's first operator
    bool waits = false;     // TensorFlow runs the region's nodes
    int64_t blocks = 0;     // blocks for which a search may find schedules
    int64_t missing = 0;    // blocks without a schedule in the cache
    int64_t oldest_ns = 0;  // time of the oldest schedule's file; 0: unknown
    int64_t picked_up = 0;  // schedules that the region got after it was loaded
  };

  // `program` runs the region now; it is null if `watch.waits`. `build` is
  // called only by the background thread, and never after Detach().
  WatchedRegion(RegionWatch watch, Block block,
                std::shared_ptr<Program> program, Builder build);

  // Makes `region` visible to the background thread and to IsReady().
  static void Register(const std::shared_ptr<WatchedRegion>& region);

  // Ends the use of the builder and the program. Waits if the background thread
  // is using the builder.
  void Detach();

  // Returns the program for a call of the region, or null if the
  // region waits for schedules.
  std::shared_ptr<Program> Current();

  // Returns whether the engine can run the regions with this key. If `inputs`
  // is not empty, it has the shapes of a call. Programs will be compiled for
  // these shapes in advance.
  static bool IsReady(const std::string& key, const std::vector<Shape>& inputs);

  // Returns the states of all regions that exist.
  static std::vector<State> States();

  // Reads new schedules from the cache, unless the region has not been called
  // since the previous Refresh(). `versions` maps paths to the versions of the
  // files, and is shared by all regions that are refreshed at the same time.
  // Only the background thread calls this function.
  void Refresh(std::map<std::string, FileVersion>* versions);

 private:
  void MarkAsCalled();
  void LookIntoCache(std::map<std::string, FileVersion>* versions);
  void Adopt(std::vector<WatchedBlock> blocks);
  StatusOr<std::shared_ptr<Program>> Build(const Schedule& schedule) const;
  std::vector<std::vector<Shape>> UsedShapes() const;

  const std::string key_, cache_dir_, engine_device_;
  const Block block_;
  const Builder build_;
  std::optional<ScheduleCache> cache_;  // used by the background thread only
  std::atomic<bool> called_{false};

  mutable std::mutex mutex_;          // for the members below
  std::vector<WatchedBlock> blocks_;  // changed by the background thread only
  std::shared_ptr<Program> program_;
  std::vector<std::vector<Shape>> seen_;  // shapes of calls while it waits
  int64_t picked_up_ = 0;

  std::mutex building_mutex_;  // for the members below
  std::condition_variable built_;
  bool detached_ = false;
  // The process whose thread is using the builder, as ForkGeneration(), or -1.
  int building_ = -1;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_WATCHED_REGION_H_

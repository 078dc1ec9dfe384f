// RegionWatch: the files of a schedule cache that a region's schedule comes
// from. The attribute `watch` of the IosRegion op contains a RegionWatch as
// JSON:
// {"key": str, "cache_dir": str, "device": str, "waits": bool,
//  "blocks": [{"block": …, "schedule": … or absent, "is_cached": bool,
//              "modified_ns": int, "bytes": int}, …]}.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_REGION_WATCH_H_
#define IOS_TF_CC_TENSORFLOW_OPS_REGION_WATCH_H_

#include <optional>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/tensorflow/cache/schedule_cache.h"

namespace ios::tf {

// A block of a region, and the schedule that it runs with.
struct WatchedBlock {
  Block block;
  std::optional<Schedule> schedule;  // nullopt: the block has no schedule yet
  // False if a search cannot find another schedule, so the cache never has a
  // file for the block.
  bool is_searched = true;
  // The version of the cache's file when it was last read. It belongs to
  // `schedule` if `is_cached`; otherwise, the schedule does not come from the
  // cache.
  FileVersion version = {};
  bool is_cached = false;
};

struct RegionWatch {
  // Identifies the region within the process. Its IosRegionReady node has the
  // same key.
  std::string key;
  std::string cache_dir;
  std::string engine_device;  // whose schedules are read; see ScheduleCache
  // True if TensorFlow runs the region's nodes until all blocks have schedules.
  bool waits = false;
  std::vector<WatchedBlock> blocks;  // in the order of the region's operators
};

std::string ToJson(const RegionWatch& watch);
StatusOr<RegionWatch> RegionWatchFromJson(const std::string& json);

// Joins the schedules of a region's blocks, in their order. Returns nullopt if
// a block has no schedule.
std::optional<Schedule> JoinSchedules(const std::vector<WatchedBlock>& blocks);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_REGION_WATCH_H_

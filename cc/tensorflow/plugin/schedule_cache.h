// ScheduleCache: the schedules of one device, stored in files named by the
// signatures of their blocks. It also stores the blocks that wait for a
// schedule.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_SCHEDULE_CACHE_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_SCHEDULE_CACHE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"

namespace ios::tf {

// <directory>/<device>/<signature>.json: a schedule (ios_tf/tuning/cache.py).
// <directory>/pending/<device>/<signature>.json: a problem
// (cc/core/ir/problem.h), for `ios_tf tune`. `directory` may be on any of
// TensorFlow's filesystems.
class ScheduleCache {
 public:
  // `engine_device`: see GetBackend.
  static absl::StatusOr<ScheduleCache> Open(const std::string& directory,
                                            const std::string& engine_device);

  // Returns the stored schedule of a block. Ignores a file without a valid
  // schedule for the block, and warns once per process about each such file.
  std::optional<Schedule> Find(const Block& block) const;

  // Stores the block for `ios_tf tune`. Returns true if the block was not
  // stored before. Warns once about a directory that cannot be written.
  bool AddPending(const Block& block) const;

  // Returns the number of warnings by Find() and AddPending() so far, in all
  // caches.
  static int warnings();

 private:
  std::string directory_;
  std::string schedules_, pending_;  // below directory_
};

// Returns a search request for a block: its problem, "device" and "cache_dir".
StatusOr<std::string> SearchRequest(const Block& block,
                                    const std::string& engine_device,
                                    const std::string& cache_dir);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_SCHEDULE_CACHE_H_

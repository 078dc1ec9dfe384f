// ScheduleCache: the schedules of one device, found and kept as files by the
// signatures of their blocks; and the blocks that wait for one.
#ifndef IOS_TF_CC_TENSORFLOW_ON_THE_FLY_SCHEDULE_CACHE_H_
#define IOS_TF_CC_TENSORFLOW_ON_THE_FLY_SCHEDULE_CACHE_H_

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

  // The schedule kept for a block. A file that holds none which is valid for it
  // is ignored, with one warning in the life of the process.
  std::optional<Schedule> Find(const Block& block) const;

  // Keeps the block for `ios_tf tune`; whether it had not been kept before. A
  // directory that cannot be written is one warning.
  bool AddPending(const Block& block) const;

  // The number of warnings by Find() and AddPending() so far, in all caches.
  static int warnings();

 private:
  std::string directory_;
  std::string schedules_, pending_;  // below it
};

// A search request for a block: its problem, "device" and "cache_dir".
StatusOr<std::string> SearchRequest(const Block& block,
                                    const std::string& engine_device,
                                    const std::string& cache_dir);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_ON_THE_FLY_SCHEDULE_CACHE_H_

// ScheduleCache: the schedules of one device, stored in files named by the
// signatures of their blocks. It also stores the blocks that wait for a
// schedule.
#ifndef IOS_TF_CC_TENSORFLOW_CACHE_SCHEDULE_CACHE_H_
#define IOS_TF_CC_TENSORFLOW_CACHE_SCHEDULE_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"

namespace ios::tf {

// Identifies the content of a file. Two versions of a file compare as
// different.
struct FileVersion {
  int64_t modified_ns = 0;  // since 1970; 0: no file, or an unknown time
  int64_t bytes = -1;       // -1: no file
  bool operator==(const FileVersion& other) const {
    return modified_ns == other.modified_ns && bytes == other.bytes;
  }
};

// <directory>/<device>/<signature>.json: a schedule (ios_tf/tuning/cache.py).
// <directory>/pending/<device>/<signature>.json: a problem
// (cc/core/ir/problem.h), for `ios_tf tune`. `directory` may be on any of
// TensorFlow's filesystems.
class ScheduleCache {
 public:
  // Opens the cache for `engine_device`, a name as for GetBackend.
  static absl::StatusOr<ScheduleCache> Open(const std::string& directory,
                                            const std::string& engine_device);

  // Returns the stored schedule of a block. A file that does not contain a
  // valid schedule for the block is ignored, with one warning per file and
  // process.
  std::optional<Schedule> Find(const Block& block) const;

  // Returns the path of the file of a block's schedule, and the file's version.
  std::string PathOf(const Block& block) const;
  FileVersion Version(const Block& block) const;

  // Stores the block for `ios_tf tune`. Returns true if the block was not
  // stored before. If the directory cannot be written, or has too many blocks
  // already, warns once.
  bool AddPending(const Block& block) const;

  // Returns the number of warnings by Find() and AddPending() so far, in all
  // caches.
  static int warnings();

 private:
  std::string directory_;
  std::string schedules_, pending_;  // below directory_
};

// Returns the JSON of a search request: the block's problem, with the members
// "device" and "cache_dir" in addition.
StatusOr<std::string> SearchRequest(const Block& block,
                                    const std::string& engine_device,
                                    const std::string& cache_dir);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CACHE_SCHEDULE_CACHE_H_

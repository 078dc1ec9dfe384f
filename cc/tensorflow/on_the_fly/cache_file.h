// Reads and writes the files of a schedule cache. Other users who can write to
// the directory cannot lead this process out of it or make the process wait.
// ios_tf/tuning/cache_files.py does the same.
#ifndef IOS_TF_CC_TENSORFLOW_ON_THE_FLY_CACHE_FILE_H_
#define IOS_TF_CC_TENSORFLOW_ON_THE_FLY_CACHE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ios::tf {

// Returns the content of a file below `directory`, on any of TensorFlow's
// filesystems. Returns an error if a local path is not a regular file or a link
// leads out of the directory, or if the file exceeds kMaxDocumentBytes.
absl::StatusOr<std::string> ReadCacheFile(const std::string& directory,
                                          const std::string& path);

// Writes directory/below/name, either completely or not at all. Creates missing
// directories.
absl::Status WriteCacheFile(const std::string& directory,
                            const std::string& below, const std::string& name,
                            const std::string& content);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_ON_THE_FLY_CACHE_FILE_H_

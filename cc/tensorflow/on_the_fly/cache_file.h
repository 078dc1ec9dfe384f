// Files of a schedule cache: read and written so that nobody who may write into
// the directory leads this process out of it, or makes it wait.
// ios_tf/tuning/cache_files.py does the same.
#ifndef IOS_TF_CC_TENSORFLOW_ON_THE_FLY_CACHE_FILE_H_
#define IOS_TF_CC_TENSORFLOW_ON_THE_FLY_CACHE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ios::tf {

// The content of a file below `directory`, on any of TensorFlow's filesystems.
// An error where it is no regular file, lies elsewhere (a link), or is larger
// than a document.
absl::StatusOr<std::string> ReadCacheFile(const std::string& directory,
                                          const std::string& path);

// Writes directory/below/name, whole or not at all; makes the directories.
absl::Status WriteCacheFile(const std::string& directory,
                            const std::string& below, const std::string& name,
                            const std::string& content);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_ON_THE_FLY_CACHE_FILE_H_

// Reads and writes the files of a schedule cache. Other users who can write to
// the directory cannot make this process access files outside of it, or wait
// forever. Python calls these functions through cache_api.h.
#ifndef IOS_TF_CC_TENSORFLOW_CACHE_CACHE_FILE_H_
#define IOS_TF_CC_TENSORFLOW_CACHE_CACHE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/core/limits.h"

namespace ios::tf {

// The functions take paths on any of TensorFlow's filesystems. On local
// filesystems, they follow links that stay within `directory`, because
// orchestrators such as Kubernetes mount files with such links. They refuse
// links that lead out of `directory`. They return FailedPrecondition for a file
// that they refuse, and NotFound for a file that does not exist.

// Returns the content of a file below `directory`. Refuses a local file that is
// not a regular file, and a file of more than `max_bytes`.
absl::StatusOr<std::string> ReadCacheFile(
    const std::string& directory, const std::string& path,
    uint64_t max_bytes = kMaxDocumentBytes);

// Writes a file below `directory`, either completely or not at all, and creates
// missing directories.
absl::Status WriteCacheFile(const std::string& directory,
                            const std::string& path,
                            const std::string& content);

// Refuses a path that leads out of `directory`. Accepts all remote paths.
absl::Status CheckInsideCache(const std::string& directory,
                              const std::string& path);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CACHE_CACHE_FILE_H_

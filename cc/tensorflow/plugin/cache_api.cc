#include "cc/tensorflow/plugin/cache_api.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "cc/tensorflow/cache/cache_file.h"
#include "cc/tensorflow/status_util.h"

namespace {

// Calls `function`, which returns a status or throws. Returns the status's code
// and copies its message.
template <typename F>
int CodeOf(char** error, F&& function) noexcept {
  const absl::Status status = ios::tf::CatchExceptionsAbsl(function);
  *error =
      status.ok() ? nullptr : strdup(std::string(status.message()).c_str());
  return static_cast<int>(status.code());
}

}  // namespace

extern "C" {

int ios_tf_read_cache_file(const char* directory, const char* path,
                           int64_t max_bytes, char** result, int64_t* size) {
  char* content = nullptr;
  const int code = CodeOf(result, [&]() -> absl::Status {
    const absl::StatusOr<std::string> found =
        ios::tf::ReadCacheFile(directory, path, max_bytes);
    if (!found.ok()) return found.status();
    *size = found->size();
    content = static_cast<char*>(std::malloc(found->size() + 1));
    if (!content) return absl::ResourceExhaustedError("out of memory");
    std::memcpy(content, found->c_str(), found->size() + 1);
    return absl::OkStatus();
  });
  if (code == 0) *result = content;
  return code;
}

int ios_tf_write_cache_file(const char* directory, const char* path,
                            const char* content, int64_t size, char** error) {
  return CodeOf(error, [&] {
    return ios::tf::WriteCacheFile(directory, path, std::string(content, size));
  });
}

int ios_tf_check_inside_cache(const char* directory, const char* path,
                              char** error) {
  return CodeOf(error,
                [&] { return ios::tf::CheckInsideCache(directory, path); });
}

}  // extern "C"

// Creates directories and files for all file caches.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_NEW_FILE_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_NEW_FILE_H_

#include <sys/types.h>

#include <string>

namespace ios::cuda {

// Owns a file descriptor, which is negative if the file could not be opened.
class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return file_; }

 private:
  const int file_;
};

// Returns the directory for programs' caches: $XDG_CACHE_HOME, or ~/.cache.
// Empty if the environment names neither.
std::string UserCacheDirectory();

// Makes the directory with `mode`, and its missing parent directories. Returns
// false if that fails.
bool MakeDirectories(const std::string& path, mode_t mode);

// Creates a file and returns whether all of `text` was written. Replaces an
// existing file or link of that name, but never writes to it. `directory` is
// that of openat().
bool WriteNewFile(int directory, const std::string& name, mode_t mode,
                  const std::string& text);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_NEW_FILE_H_

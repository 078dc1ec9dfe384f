// Creates directories and files for the caches on disk.
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

// Returns the user's directory for caches: $XDG_CACHE_HOME, or ~/.cache. Empty
// if neither XDG_CACHE_HOME nor HOME is set.
std::string UserCacheDirectory();

// Makes a directory with the permissions `mode`, and its missing parent
// directories. Returns false on failure.
bool MakeDirectories(const std::string& path, mode_t mode);

// Creates a file with the content `text`, and returns whether all of it was
// written. An existing file or link of this name is removed first, not written
// to. `directory` is the argument of openat().
bool WriteNewFile(int directory, const std::string& name, mode_t mode,
                  const std::string& text);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_NEW_FILE_H_

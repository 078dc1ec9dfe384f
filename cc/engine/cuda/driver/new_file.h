// The directories and files that all caches of files make.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_NEW_FILE_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_NEW_FILE_H_

#include <sys/types.h>

#include <string>

namespace ios::cuda {

// Closes a file, if it could be opened.
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

// Where programs keep caches: $XDG_CACHE_HOME, or ~/.cache. Empty if the
// environment names neither.
std::string UserCacheDirectory();

// Makes the directory, with `mode`, and those above it, as far as they are
// missing.
bool MakeDirectories(const std::string& path, mode_t mode);

// Writes a new file, which nobody has put there before; whether all of it is
// there. `directory`: as of openat().
bool WriteNewFile(int directory, const std::string& name, mode_t mode,
                  const std::string& text);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_NEW_FILE_H_

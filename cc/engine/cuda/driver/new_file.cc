#include "cc/engine/cuda/driver/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace ios::cuda {

OpenFile::~OpenFile() {
  if (file_ >= 0) close(file_);
}

std::string UserCacheDirectory() {
  const char* caches = std::getenv("XDG_CACHE_HOME");
  // The XDG specification says that a relative path must be ignored.
  if (caches && *caches == '/') return caches;
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache" : "";
}

bool MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0777);
  }
  return mkdir(path.c_str(), mode) == 0 || errno == EEXIST;
}

bool WriteNewFile(int directory, const std::string& name, mode_t mode,
                  const std::string& text) {
  // Removes a file that a killed process with the same process ID may have
  // left.
  unlinkat(directory, name.c_str(), 0);
  const int file =
      openat(directory, name.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0) return false;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t bytes = write(file, text.data() + done, text.size() - done);
    if (bytes <= 0) break;
    done += bytes;
  }
  return close(file) == 0 && done == text.size();
}

}  // namespace ios::cuda

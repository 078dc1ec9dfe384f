#include "cc/tensorflow/on_the_fly/cache_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/core/limits.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"
#include "tensorflow/core/platform/random.h"

namespace ios::tf {
namespace {

using ::tensorflow::Env;
using ::tensorflow::io::JoinPath;

bool IsLocal(const std::string& path) {
  return !absl::StrContains(path, "://");
}

absl::Status LastError() {
  return absl::ErrnoToStatus(errno, "it cannot be opened");
}

absl::Status TooLarge() {
  return absl::ResourceExhaustedError(
      absl::StrCat("it has more than ", kMaxDocumentBytes, " bytes"));
}

// Links may lead to other places of the directory: orchestrators mount so.
absl::Status CheckInside(const std::string& directory,
                         const std::string& path) {
  char root[PATH_MAX], found[PATH_MAX];
  if (!realpath(directory.c_str(), root) || !realpath(path.c_str(), found)) {
    return LastError();
  }
  const std::string below =
      std::strcmp(root, "/") == 0 ? "/" : absl::StrCat(root, "/");
  if (absl::StartsWith(absl::StrCat(found, "/"), below))
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it leads out of ", directory));
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return descriptor_; }  // NOLINT

 private:
  const int descriptor_;
};

absl::StatusOr<std::string> ReadLocal(const std::string& directory,
                                      const std::string& path) {
  const auto check = [](const struct stat& found) -> absl::Status {
    if (!S_ISREG(found.st_mode)) {
      return absl::FailedPreconditionError("it is no regular file");
    }
    if (static_cast<uint64_t>(found.st_size) > kMaxDocumentBytes) {
      return TooLarge();
    }
    return absl::OkStatus();
  };
  // A named pipe would wait for who writes, and opening a device does things.
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return LastError();
  TF_RETURN_IF_ERROR(check(found));
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file < 0 || fstat(file, &found) != 0) return LastError();
  TF_RETURN_IF_ERROR(check(found));
  TF_RETURN_IF_ERROR(
      CheckInside(directory, absl::StrCat("/proc/self/fd/", int{file})));
  std::string content(found.st_size, '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = read(file, &content[done], content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LastError();
    if (count == 0) break;  // it became shorter
    done += count;
  }
  content.resize(done);
  return content;
}

}  // namespace

absl::StatusOr<std::string> ReadCacheFile(const std::string& directory,
                                          const std::string& path) {
  if (IsLocal(path)) return ReadLocal(directory, path);
  uint64_t size = 0;
  TF_RETURN_IF_ERROR(Env::Default()->GetFileSize(path, &size));
  if (size > kMaxDocumentBytes) return TooLarge();
  std::string content;
  TF_RETURN_IF_ERROR(
      tensorflow::ReadFileToString(Env::Default(), path, &content));
  return content;
}

absl::Status WriteCacheFile(const std::string& directory,
                            const std::string& below, const std::string& name,
                            const std::string& content) {
  Env* const env = Env::Default();
  const std::string parent = JoinPath(directory, below);
  TF_RETURN_IF_ERROR(env->RecursivelyCreateDir(parent));
  if (IsLocal(directory)) TF_RETURN_IF_ERROR(CheckInside(directory, parent));
  const std::string path = JoinPath(parent, name);
  // A reader sees a whole file or none.
  const std::string temporary =
      absl::StrCat(path, ".", tensorflow::random::New64(), ".tmp");
  absl::Status status = tensorflow::WriteStringToFile(env, temporary, content);
  if (status.ok()) status = env->RenameFile(temporary, path);
  if (!status.ok()) env->DeleteFile(temporary).IgnoreError();
  return status;
}

}  // namespace ios::tf

#include "cc/tensorflow/on_the_fly/cache_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
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

// Removes "file://", so that the links of local files are checked.
std::string WithoutScheme(const std::string& path) {
  return std::string(absl::StripPrefix(path, "file://"));
}

absl::Status LastError() {
  return absl::ErrnoToStatus(errno, "file access failed");
}

absl::Status TooLarge() {
  return absl::ResourceExhaustedError(
      absl::StrCat("it has more than ", kMaxDocumentBytes, " bytes"));
}

// Returns an error if `path` leads out of `directory`. Links to other places in
// the directory are allowed, because orchestrators mount files with such links.
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
      absl::StrCat("the path leads out of ", directory));
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(Descriptor&& other)
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  operator int() const { return descriptor_; }  // NOLINT

  // Some filesystems report only at this point that they have lost written
  // data.
  absl::Status Close() {
    return close(std::exchange(descriptor_, -1)) == 0 ? absl::OkStatus()
                                                      : LastError();
  }

 private:
  int descriptor_;
};

absl::StatusOr<std::string> ReadLocal(const std::string& directory,
                                      const std::string& path) {
  const auto check = [](const struct stat& found) -> absl::Status {
    if (!S_ISREG(found.st_mode)) {
      return absl::FailedPreconditionError("it is not a regular file");
    }
    if (static_cast<uint64_t>(found.st_size) > kMaxDocumentBytes) {
      return TooLarge();
    }
    return absl::OkStatus();
  };
  // Checks the type before opening: a named pipe would block until there is a
  // writer, and opening a device has side effects.
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
    if (count == 0) break;  // the file became shorter
    done += count;
  }
  content.resize(done);
  return content;
}

// Opens `below` in `directory`, and creates missing directories. Resolves all
// links before it creates anything, and follows none afterwards. So a link that
// changes at the same time cannot lead out of the directory.
absl::StatusOr<Descriptor> MakeInside(const std::string& directory,
                                      const std::string& below) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  if (error) return absl::ErrnoToStatus(error.value(), "file access failed");
  const fs::path target = fs::weakly_canonical(root / below, error);
  if (error) return absl::ErrnoToStatus(error.value(), "file access failed");
  const fs::path names = target.lexically_relative(root);
  if (names.empty() || *names.begin() == "..") {
    return absl::FailedPreconditionError(
        absl::StrCat("the path leads out of ", directory));
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Descriptor place(open(root.c_str(), kFlags));
  if (place < 0) return LastError();
  for (const fs::path& name : names) {
    if (name != "." && mkdirat(place, name.c_str(), 0777) != 0 &&
        errno != EEXIST) {
      return LastError();
    }
    place = Descriptor(openat(place, name.c_str(), kFlags));
    if (place < 0) return LastError();
  }
  return place;
}

absl::Status WriteAll(int file, const std::string& content) {
  for (size_t done = 0; done < content.size();) {
    const ssize_t count = write(file, &content[done], content.size() - done);
    if (count < 0 && errno != EINTR) return LastError();
    if (count > 0) done += count;
  }
  return absl::OkStatus();
}

absl::Status WriteLocal(const std::string& directory, const std::string& below,
                        const std::string& name, const std::string& temporary,
                        const std::string& content) {
  TF_RETURN_IF_ERROR(Env::Default()->RecursivelyCreateDir(directory));
  const absl::StatusOr<Descriptor> made = MakeInside(directory, below);
  if (!made.ok()) return made.status();
  const int place = *made;
  absl::Status status;
  {
    Descriptor file(openat(place, temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file < 0) return LastError();
    status = WriteAll(file, content);
    const absl::Status closed = file.Close();
    if (status.ok()) status = closed;
  }
  if (status.ok() &&
      renameat(place, temporary.c_str(), place, name.c_str()) != 0) {
    status = LastError();
  }
  if (!status.ok()) unlinkat(place, temporary.c_str(), 0);
  return status;
}

}  // namespace

absl::StatusOr<std::string> ReadCacheFile(const std::string& directory,
                                          const std::string& path) {
  const std::string local = WithoutScheme(path);
  if (IsLocal(local)) return ReadLocal(WithoutScheme(directory), local);
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
  // A reader sees a whole file or none.
  const std::string temporary =
      absl::StrCat(name, ".", tensorflow::random::New64(), ".tmp");
  const std::string local = WithoutScheme(directory);
  if (IsLocal(local)) {
    return WriteLocal(local, below, name, temporary, content);
  }
  Env* const env = Env::Default();
  const std::string parent = JoinPath(directory, below);
  TF_RETURN_IF_ERROR(env->RecursivelyCreateDir(parent));
  const std::string begun = JoinPath(parent, temporary);
  absl::Status status = tensorflow::WriteStringToFile(env, begun, content);
  if (status.ok()) status = env->RenameFile(begun, JoinPath(parent, name));
  if (!status.ok()) env->DeleteFile(begun).IgnoreError();
  return status;
}

}  // namespace ios::tf

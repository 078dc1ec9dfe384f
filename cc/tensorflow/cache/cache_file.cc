#include "cc/tensorflow/cache/cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"
#include "tensorflow/core/platform/random.h"

namespace ios::tf {
namespace {

namespace fs = std::filesystem;
using ::tensorflow::Env;
using ::tensorflow::io::JoinPath;

bool IsLocal(const std::string& path) {
  return !absl::StrContains(path, "://");
}

// Removes "file://", so that the path counts as local. For local paths, the
// functions below check that symbolic links do not lead out of the cache.
std::string WithoutScheme(const std::string& path) {
  return std::string(absl::StripPrefix(path, "file://"));
}

absl::Status FromErrno(int number) {
  const std::string text = std::strerror(number);
  return number == ENOENT ? absl::NotFoundError(text)
                          : absl::UnknownError(text);
}

absl::Status LastError() { return FromErrno(errno); }

absl::Status TooLarge(uint64_t max_bytes) {
  return absl::FailedPreconditionError(
      absl::StrCat("the file has more than ", max_bytes, " bytes"));
}

absl::Status LeadsOutOf(const std::string& directory) {
  return absl::FailedPreconditionError(
      absl::StrCat("the path leads out of ", directory));
}

// Returns the absolute path with all links resolved. The path need not exist.
// (std::filesystem::weakly_canonical cannot be used: it does not follow a link
// whose target does not exist.)
absl::StatusOr<fs::path> WithoutLinks(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // as Linux
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return FromErrno(error.value());
  std::vector<fs::path> rest(absolute.begin(), absolute.end());
  std::reverse(rest.begin(), rest.end());
  fs::path resolved;
  int links = 0;
  while (!rest.empty()) {
    const fs::path name = rest.back();
    rest.pop_back();
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      resolved = resolved.parent_path();
      continue;
    }
    const fs::path next = resolved / name;  // just `name` if it is "/"
    if (!fs::is_symlink(next, error)) {
      resolved = next;
      continue;
    }
    if (++links > kMaxLinks) return FromErrno(ELOOP);
    const fs::path target = fs::read_symlink(next, error);
    if (error) return FromErrno(error.value());
    const std::vector<fs::path> names(target.begin(), target.end());
    rest.insert(rest.end(), names.rbegin(), names.rend());
  }
  return resolved;
}

// Returns `path` relative to `directory`, both with links resolved, or an error
// if the path leads out of the directory.
absl::StatusOr<fs::path> Below(const std::string& directory,
                               const std::string& path) {
  const absl::StatusOr<fs::path> root = WithoutLinks(directory);
  if (!root.ok()) return root.status();
  const absl::StatusOr<fs::path> target = WithoutLinks(path);
  if (!target.ok()) return target.status();
  fs::path names = target->lexically_relative(*root);
  if (names.empty() || *names.begin() == "..") return LeadsOutOf(directory);
  return names;
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

  // Closes the file and returns errors, because some filesystems report lost
  // data only when a file is closed.
  absl::Status Close() {
    return close(std::exchange(descriptor_, -1)) == 0 ? absl::OkStatus()
                                                      : LastError();
  }

 private:
  int descriptor_;
};

absl::StatusOr<std::string> ReadLocal(const std::string& directory,
                                      const std::string& path,
                                      uint64_t max_bytes) {
  const auto check = [&](const struct stat& found) -> absl::Status {
    if (!S_ISREG(found.st_mode)) {
      return absl::FailedPreconditionError("the path is not a regular file");
    }
    if (static_cast<uint64_t>(found.st_size) > max_bytes) {
      return TooLarge(max_bytes);
    }
    return absl::OkStatus();
  };
  // Checks the type before opening the file, because opening a named pipe would
  // block until another process writes to it, and opening a device may have
  // side effects.
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return LastError();
  TF_RETURN_IF_ERROR(check(found));
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file < 0 || fstat(file, &found) != 0) return LastError();
  TF_RETURN_IF_ERROR(check(found));
  TF_RETURN_IF_ERROR(
      Below(directory, absl::StrCat("/proc/self/fd/", int{file})).status());
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

// Opens a directory below `directory`, and creates missing directories. All
// links are resolved first, and none is followed afterwards, so that a link
// that another user changes at the same time cannot lead out of the directory.
absl::StatusOr<Descriptor> MakeInside(const std::string& directory,
                                      const std::string& path) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return FromErrno(error.value());
  const absl::StatusOr<fs::path> root = WithoutLinks(directory);
  if (!root.ok()) return root.status();
  const absl::StatusOr<fs::path> names = Below(*root, path);
  if (!names.ok()) return names.status();
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Descriptor place(open(root->c_str(), kFlags));
  if (place < 0) return LastError();
  for (const fs::path& name : *names) {
    if (name != "." && mkdirat(place, name.c_str(), 0777) != 0 &&
        errno != EEXIST) {
      return LastError();
    }
    place = Descriptor(openat(place, name.c_str(), kFlags));
    if (place < 0) return LastError();
  }
  return place;
}

// Returns the directory and the name of a file.
std::pair<std::string, std::string> Split(const std::string& path) {
  return {std::string(tensorflow::io::Dirname(path)),
          std::string(tensorflow::io::Basename(path))};
}

// Returns a name for a temporary file that no other process uses, not even a
// forked one. The file is renamed when it is complete, so that readers never
// see half of it.
std::string TemporaryName(const std::string& name) {
  return absl::StrCat(name, ".", absl::Hex(getpid()), "-",
                      absl::Hex(tensorflow::random::New64()), ".tmp");
}

absl::Status WriteAll(int file, const std::string& content) {
  for (size_t done = 0; done < content.size();) {
    const ssize_t count = write(file, &content[done], content.size() - done);
    if (count < 0 && errno != EINTR) return LastError();
    if (count > 0) done += count;
  }
  return absl::OkStatus();
}

absl::Status WriteLocal(const std::string& directory, const std::string& path,
                        const std::string& content) {
  const auto [parent, name] = Split(path);
  const std::string temporary = TemporaryName(name);
  const absl::StatusOr<Descriptor> made =
      MakeInside(directory, parent.empty() ? "." : parent);
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
                                          const std::string& path,
                                          uint64_t max_bytes) {
  const std::string local = WithoutScheme(path);
  if (IsLocal(local)) {
    return ReadLocal(WithoutScheme(directory), local, max_bytes);
  }
  uint64_t size = 0;
  TF_RETURN_IF_ERROR(Env::Default()->GetFileSize(path, &size));
  if (size > max_bytes) return TooLarge(max_bytes);
  std::string content;
  TF_RETURN_IF_ERROR(
      tensorflow::ReadFileToString(Env::Default(), path, &content));
  return content;
}

absl::Status WriteCacheFile(const std::string& directory,
                            const std::string& path,
                            const std::string& content) {
  const std::string local = WithoutScheme(path);
  if (IsLocal(local)) {
    return WriteLocal(WithoutScheme(directory), local, content);
  }
  Env* const env = Env::Default();
  const auto [parent, name] = Split(path);
  TF_RETURN_IF_ERROR(env->RecursivelyCreateDir(parent));
  const std::string temporary = JoinPath(parent, TemporaryName(name));
  absl::Status status = tensorflow::WriteStringToFile(env, temporary, content);
  if (status.ok()) status = env->RenameFile(temporary, path);
  if (!status.ok()) env->DeleteFile(temporary).IgnoreError();
  return status;
}

absl::Status CheckInsideCache(const std::string& directory,
                              const std::string& path) {
  const std::string local = WithoutScheme(path);
  if (!IsLocal(local)) return absl::OkStatus();
  return Below(WithoutScheme(directory), local).status();
}

}  // namespace ios::tf

#include "cc/engine/cuda/driver/code_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cc/core/limits.h"
#include "cc/core/sha256.h"
#include "cc/engine/cuda/driver/new_file.h"

namespace ios::cuda {
namespace {

// The first line of every file. The second line is the SHA-256 of the code.
// Increment the number when keys or files change their meaning.
constexpr char kCodeHeader[] = "ios_tf code 1\n";

// Returns whether the file belongs to the user and nobody else may write to it.
bool IsOwn(const struct stat& found) {
  return found.st_uid == geteuid() &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string FileName(const std::string& key) { return Sha256Hex(key) + ".bin"; }

// Reads a whole file. Returns nullopt unless the file IsOwn() and has at most
// kMaxDocumentBytes.
std::optional<std::string> ReadOwn(int directory, const std::string& name) {
  const OpenFile file(openat(directory, name.c_str(),
                             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found;
  if (file.get() < 0 || fstat(file.get(), &found) != 0 ||
      !S_ISREG(found.st_mode) || !IsOwn(found) ||
      found.st_size > static_cast<int64_t>(kMaxDocumentBytes)) {
    return std::nullopt;
  }
  std::string text(found.st_size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t bytes = read(file.get(), &text[done], text.size() - done);
    if (bytes <= 0) return std::nullopt;
    done += bytes;
  }
  return text;
}

std::string OwnDirectory() {
  if (const char* code = std::getenv("IOS_TF_CODE_CACHE")) return code;
  const std::string caches = UserCacheDirectory();
  return caches.empty() ? "" : caches + "/ios_tf_code";
}

}  // namespace

CodeCache& CodeCache::Get() {
  static auto* cache = new CodeCache(OwnDirectory());
  return *cache;
}

std::optional<std::string> CodeCache::Find(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const OpenFile directory(OpenDirectory());
  if (directory.get() < 0) return std::nullopt;
  const std::optional<std::string> text =
      ReadOwn(directory.get(), FileName(key));
  constexpr size_t kDigits = 64;
  const size_t begin = std::strlen(kCodeHeader) + kDigits + 1;
  if (!text || text->size() < begin) return std::nullopt;
  std::string code = text->substr(begin);
  if (text->substr(0, begin) != kCodeHeader + Sha256Hex(code) + "\n") {
    return std::nullopt;
  }
  return code;
}

void CodeCache::Insert(const std::string& key, const std::string& code) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (directory_.empty()) return;
  if (!MakeDirectories(directory_, 0700)) return GiveUp(strerror(errno));
  const OpenFile directory(OpenDirectory());
  if (directory.get() < 0) {
    return GiveUp(errno == ENOTDIR
                      ? "it is not a directory, or it is a symbolic link"
                      : strerror(errno));
  }
  const std::string name = FileName(key);
  const std::string temporary = name + "." + std::to_string(getpid());
  if (!WriteNewFile(directory.get(), temporary, 0600,
                    kCodeHeader + Sha256Hex(code) + "\n" + code) ||
      renameat(directory.get(), temporary.c_str(), directory.get(),
               name.c_str()) != 0) {
    GiveUp(strerror(errno));
    unlinkat(directory.get(), temporary.c_str(), 0);
  }
}

int CodeCache::OpenDirectory() {
  if (directory_.empty()) return -1;
  const int directory =
      open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat found;
  if (directory < 0) return -1;
  if (fstat(directory, &found) == 0 && IsOwn(found)) return directory;
  close(directory);
  GiveUp("other users may write to it");
  return -1;
}

void CodeCache::GiveUp(const std::string& why) {
  if (directory_.empty()) return;
  fprintf(stderr,
          "ios_tf: the code cache %s is not used: %s. Each process compiles "
          "the GPU kernels again\n",
          directory_.c_str(), why.c_str());
  directory_.clear();
}

}  // namespace ios::cuda

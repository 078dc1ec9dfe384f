#include "cc/engine/cuda/cudnn/plan_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/limits.h"
#include "cc/core/status.h"
#include "cc/engine/cuda/driver/new_file.h"

namespace ios::cuda {
namespace {

using Json = nlohmann::json;

// The version of the file format. Increment it when names or descriptions
// change their meaning.
constexpr int kFormat = 1;

// Reads a regular file of at most kMaxDocumentBytes. Returns nullopt if the
// file does not exist, and an error for a link, a pipe or a larger file.
StatusOr<std::optional<std::string>> ReadRegular(const std::string& path) {
  const OpenFile file(
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return std::optional<std::string>();
    return InvalidArgument(strerror(errno));
  }
  struct stat found;
  if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return InvalidArgument("the path is not a regular file");
  }
  std::string text;
  char part[1 << 16];
  ssize_t bytes = 0;
  while ((bytes = read(file.get(), part, sizeof(part))) > 0) {
    text.append(part, bytes);
    if (text.size() > kMaxDocumentBytes)
      return InvalidArgument("the file is too large");
  }
  if (bytes < 0) return InvalidArgument(strerror(errno));
  return std::optional<std::string>(std::move(text));
}

StatusOr<std::map<std::string, std::string>> Parse(const std::string& text) {
  IOS_ASSIGN_OR_RETURN(const Json json, ParseDocument(text, "the file"));
  const auto format = json.find("format"), plans = json.find("plans");
  if (format == json.end() || *format != kFormat || plans == json.end() ||
      !plans->is_object()) {
    return InvalidArgument("the file does not contain cuDNN plans");
  }
  std::map<std::string, std::string> found;
  for (const auto& [convolution, plan] : plans->items()) {
    if (plan.is_string()) found.emplace(convolution, plan.get<std::string>());
  }
  return found;
}

// Returns the plans in a file. Empty if the file does not exist or has another
// format.
std::map<std::string, std::string> Read(const std::string& path) {
  const auto parsed = [&]() -> StatusOr<std::map<std::string, std::string>> {
    IOS_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                         ReadRegular(path));
    if (!text) return std::map<std::string, std::string>();
    return Parse(*text);
  }();
  if (parsed.ok()) return *parsed;
  fprintf(stderr, "ios_tf: %s is ignored: %s\n", path.c_str(),
          parsed.status().message().c_str());
  return {};
}

std::string DefaultDirectory() {
  if (const char* plans = std::getenv("IOS_TF_PLAN_CACHE")) return plans;
  const char* cache = std::getenv("IOS_TF_CACHE");
  if (cache && *cache) return std::string(cache) + "/plans";
  const std::string caches = UserCacheDirectory();
  return caches.empty() ? "" : caches + "/ios_tf/plans";
}

}  // namespace

PlanCache& PlanCache::Get() {
  static auto* cache = new PlanCache;
  return *cache;
}

PlanCache::PlanCache() : directory_(DefaultDirectory()) {}

std::optional<std::string> PlanCache::Find(const std::string& device,
                                           const std::string& convolution) {
  std::lock_guard<std::mutex> lock(mutex_);
  Load(device);
  for (const auto* plans : {&temporary_[device], &plans_[device]}) {
    const auto found = plans->find(convolution);
    if (found != plans->end()) return found->second;
  }
  return std::nullopt;
}

void PlanCache::Insert(const std::string& device,
                       const std::string& convolution, const std::string& plan,
                       bool store) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (store) {
    temporary_[device].erase(convolution);
    plans_[device][convolution] = plan;
    if (++unsaved_[device] >= kMostUnsaved) Store(device);
    return;
  }
  if (!warned_ && !directory_.empty()) {
    fprintf(
        stderr,
        "ios_tf: other work on %s disturbs the timing of cuDNN plans, so plans "
        "that may not be the fastest are used, but not stored. Nothing else "
        "should use the GPU while plans are timed\n",
        device.c_str());
  }
  warned_ = true;
  temporary_[device][convolution] = plan;
}

void PlanCache::Save() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [device, count] : unsaved_) {
    if (count > 0) Store(device);
  }
}

std::string PlanCache::Path(const std::string& device) const {
  std::string name = device;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  return directory_ + "/" + name + ".json";
}

PlanCache::FileVersion PlanCache::VersionOf(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) return {};
  return {static_cast<int64_t>(found.st_ino), found.st_size,
          found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

void PlanCache::Load(const std::string& device) {
  if (directory_.empty()) return;
  const std::string path = Path(device);
  const FileVersion version = VersionOf(path);
  if (loaded_[device] == version) return;
  loaded_[device] = version;
  ReadFile(device);
}

void PlanCache::ReadFile(const std::string& device) {
  // insert() does not replace the plans that this process measured itself and
  // stores. Its other plans may not be the fastest.
  const Plans plans = Read(Path(device));
  plans_[device].insert(plans.begin(), plans.end());
  for (const auto& plan : plans) temporary_[device].erase(plan.first);
}

void PlanCache::Store(const std::string& device) {
  unsaved_[device] = 0;
  if (directory_.empty()) return;
  const std::string path = Path(device);
  // Reads the file again first, because other processes may have added plans
  // since it was loaded.
  ReadFile(device);
  const Json json = {{"format", kFormat}, {"plans", plans_[device]}};

  const std::string temporary = path + "." + std::to_string(getpid());
  const bool written =
      MakeDirectories(directory_, 0777) &&
      WriteNewFile(
          AT_FDCWD, temporary, 0666,
          json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n") &&
      rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    fprintf(stderr,
            "ios_tf: cannot write %s: %s. The names of the fastest cuDNN plans "
            "are kept in memory, so other processes time the plans again\n",
            path.c_str(), strerror(errno));
    unlink(temporary.c_str());
    directory_.clear();
  }
}

}  // namespace ios::cuda

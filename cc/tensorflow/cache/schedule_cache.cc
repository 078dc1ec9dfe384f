#include "cc/tensorflow/cache/schedule_cache.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/core/ir/problem.h"
#include "cc/engine/devices.h"
#include "cc/engine/host/fork_guard.h"
#include "cc/tensorflow/cache/cache_file.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/status_util.h"
#include "cc/tensorflow/warn.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"

namespace ios::tf {
namespace {

using ::tensorflow::Env;
using ::tensorflow::io::JoinPath;

// At most this many blocks are stored for `ios_tf tune`. The limit is not
// exact: processes that store blocks at the same moment may exceed it.
constexpr int kMostPending = 1000;

std::mutex& WarnedMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::set<std::string>& Warned() {
  static auto* const warned = new std::set<std::string>;
  return *warned;
}

// Warns once per path, even if a server loads its models again and again.
void WarnOnce(Reason reason, const std::string& path, const std::string& text) {
  const ForkSafeLock lock(&WarnedMutex());
  if (Warned().insert(path).second) {
    Warn(reason, absl::StrCat(path, " ", text));
  }
}

// Returns the number of blocks in a directory of pending blocks.
int PendingIn(const std::string& directory) {
  std::vector<std::string> names;
  if (!Env::Default()->GetChildren(directory, &names).ok()) return 0;
  return std::count_if(names.begin(), names.end(), [](const auto& name) {
    return absl::EndsWith(name, ".json");
  });
}

}  // namespace

absl::StatusOr<ScheduleCache> ScheduleCache::Open(
    const std::string& directory, const std::string& engine_device) {
  const StatusOr<std::string> fingerprint = DeviceFingerprint(engine_device);
  if (!fingerprint.ok()) return ToAbsl(fingerprint.status());
  const std::string device = DeviceDirectory(*fingerprint);
  ScheduleCache cache;
  cache.directory_ = directory;
  cache.schedules_ = device;
  cache.pending_ = JoinPath(kPending, device);
  return cache;
}

std::string ScheduleCache::PathOf(const Block& block) const {
  return JoinPath(directory_, schedules_, Signature(block) + ".json");
}

FileVersion ScheduleCache::Version(const Block& block) const {
  tensorflow::FileStatistics found;
  if (!Env::Default()->Stat(PathOf(block), &found).ok()) return {};
  return {found.mtime_nsec, found.length};
}

std::optional<Schedule> ScheduleCache::Find(const Block& block) const {
  const std::string path = PathOf(block);
  const absl::StatusOr<std::string> json = ReadCacheFile(directory_, path);
  if (absl::IsNotFound(json.status())) return std::nullopt;
  if (!json.ok()) {
    WarnOnce(Reason::kCacheFileIgnored, path,
             absl::StrCat("is ignored: ", json.status().message()));
    return std::nullopt;
  }
  StatusOr<Schedule> schedule = ParseSchedule(*json, block);
  if (!schedule.ok()) {
    WarnOnce(Reason::kCacheFileIgnored, path,
             absl::StrCat("is ignored: ", schedule.status().message()));
    return std::nullopt;
  }
  return std::move(*schedule);
}

bool ScheduleCache::AddPending(const Block& block) const {
  const std::string pending = JoinPath(directory_, pending_);
  const std::string path = JoinPath(pending, Signature(block) + ".json");
  if (Env::Default()->FileExists(path).ok()) return false;
  if (PendingIn(pending) >= kMostPending) {
    WarnOnce(Reason::kCacheNotWritten, pending,
             absl::StrCat("already has ", kMostPending,
                          " blocks without a schedule, so further blocks are "
                          "not stored. Run `ios_tf tune` to schedule them."));
    return false;
  }
  const StatusOr<std::string> problem = ProblemJson(block);
  if (!problem.ok()) return false;
  const absl::Status written = WriteCacheFile(directory_, path, *problem);
  if (!written.ok()) {
    WarnOnce(Reason::kCacheNotWritten, directory_,
             absl::StrCat("is not writable, so blocks without a schedule are "
                          "not kept for ios_tf tune: ",
                          written.message()));
  }
  return written.ok();
}

int ScheduleCache::warnings() {
  const ForkSafeLock lock(&WarnedMutex());
  return Warned().size();
}

StatusOr<std::string> SearchRequest(const Block& block,
                                    const std::string& engine_device,
                                    const std::string& cache_dir) {
  IOS_ASSIGN_OR_RETURN(const std::string problem, ProblemJson(block));
  auto json = nlohmann::json::parse(problem, nullptr, false);
  json["device"] = engine_device;
  json["cache_dir"] = cache_dir;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ios::tf

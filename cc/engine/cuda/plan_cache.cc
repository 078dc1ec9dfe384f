#include "cc/engine/cuda/plan_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace ios::cuda {
namespace {

using Json = nlohmann::json;

// Counts up when names or descriptions change their meaning.
constexpr int kFormat = 1;

// Makes the directory and those above it, as far as they are missing.
bool MakeDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0777);
  }
  return mkdir(path.c_str(), 0777) == 0 || errno == EEXIST;
}

// The file's plans; none if there is no such file, or none of this format.
std::map<std::string, std::string> Read(const std::string& path) {
  std::map<std::string, std::string> plans;
  std::ifstream file(path);
  if (!file) return plans;
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format") ||
      json["format"] != kFormat || !json.contains("plans") ||
      !json["plans"].is_object()) {
    fprintf(stderr, "ios_tf: ignoring %s: not a file of cuDNN plans\n",
            path.c_str());
    return plans;
  }
  for (const auto& [convolution, plan] : json["plans"].items()) {
    if (plan.is_string()) plans.emplace(convolution, plan.get<std::string>());
  }
  return plans;
}

std::string DefaultDirectory() {
  if (const char* plans = std::getenv("IOS_TF_PLAN_CACHE")) return plans;
  const char* cache = std::getenv("IOS_TF_CACHE");
  if (cache && *cache) return std::string(cache) + "/plans";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/ios_tf/plans" : "";
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
  const Plans& plans = plans_[device];
  const auto found = plans.find(convolution);
  if (found == plans.end()) return std::nullopt;
  return found->second;
}

void PlanCache::Insert(const std::string& device,
                       const std::string& convolution,
                       const std::string& plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  plans_[device][convolution] = plan;
  Store(device);
}

std::string PlanCache::Path(const std::string& device) const {
  std::string name = device;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  return directory_ + "/" + name + ".json";
}

void PlanCache::Load(const std::string& device) {
  if (directory_.empty() || !loaded_.insert(device).second) return;
  // insert(): what this process measured itself stays.
  const Plans plans = Read(Path(device));
  plans_[device].insert(plans.begin(), plans.end());
}

void PlanCache::Store(const std::string& device) {
  if (directory_.empty()) return;
  const std::string path = Path(device);
  // Other processes may have added to the file since.
  const Plans plans = Read(path);
  plans_[device].insert(plans.begin(), plans.end());
  const Json json = {{"format", kFormat}, {"plans", plans_[device]}};

  const std::string temporary = path + "." + std::to_string(getpid());
  bool written = MakeDirectories(directory_);
  if (written) {
    std::ofstream file(temporary);
    file << json.dump(1) << "\n";
    file.close();
    written = file.good() && rename(temporary.c_str(), path.c_str()) == 0;
  }
  if (!written) {
    fprintf(stderr, "ios_tf: cannot write %s: %s; plans are kept in memory\n",
            path.c_str(), strerror(errno));
    unlink(temporary.c_str());
    directory_.clear();
  }
}

}  // namespace ios::cuda

// PlanCache: stores which of cuDNN's plans was fastest, in memory and on disk.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_CACHE_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_CACHE_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace ios::cuda {

// Maps the descriptions of a device and a convolution to the name of the
// fastest plan. Each device has one file, <directory>/<device>.json, which is
// written under a temporary name and then renamed. A name only selects one of
// the plans that cuDNN proposes, so an outdated or damaged file can make a
// convolution slower, but not wrong.
class PlanCache {
 public:
  // Returns the cache of this process. Its directory is $IOS_TF_PLAN_CACHE. If
  // the variable is not set, the directory is beside the schedules:
  // $IOS_TF_CACHE/plans, or ios_tf/plans in the user's cache directory. If the
  // variable is set but empty, plans are kept in memory only.
  static PlanCache& Get();

  std::optional<std::string> Find(const std::string& device,
                                  const std::string& convolution);
  // Adds a plan. If `store` is false, only this process uses the plan, because
  // another measurement may find a faster plan. Otherwise the plan is written
  // to the file by Save(), or as soon as kMostUnsaved plans are to be written.
  void Insert(const std::string& device, const std::string& convolution,
              const std::string& plan, bool store);

  // Writes the plans that are not in their files yet.
  void Save();

 private:
  using Plans = std::map<std::string, std::string>;  // keyed by convolution
  // Differs between versions of a file: its inode, size, and time of change in
  // seconds and nanoseconds.
  using FileVersion = std::array<int64_t, 4>;

  PlanCache();

  std::string Path(const std::string& device) const;
  // Returns zeros if the file does not exist.
  static FileVersion VersionOf(const std::string& path);
  // Reads the device's file if it has changed since it was read.
  void Load(const std::string& device);
  // Adds the plans in the device's file, which are all certain.
  void ReadFile(const std::string& device);
  void Store(const std::string& device);

  static constexpr int kMostUnsaved = 16;

  std::mutex mutex_;
  std::string directory_;
  std::map<std::string, FileVersion> loaded_;  // keyed by device
  std::map<std::string, Plans> plans_;         // keyed by device
  // Plans that are not written to files, keyed by device.
  std::map<std::string, Plans> temporary_;
  std::map<std::string, int> unsaved_;  // numbers of plans, keyed by device
  bool warned_ = false;  // about plans that are not written to files
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_CACHE_H_

// PlanCache: the results of timing cuDNN's engines, in memory and on disk.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_CACHE_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_CACHE_H_

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace ios::cuda {

// Maps a device and a convolution, both in words, to the name of the fastest
// plan. One file per device, <directory>/<device>.json, written to a temporary
// name and renamed. A name is only ever looked up among the plans that cuDNN
// proposes: a file that is stale, foreign or damaged costs time, not
// correctness.
class PlanCache {
 public:
  // The process's. Its directory is the environment's IOS_TF_PLAN_CACHE, beside
  // the schedules ($IOS_TF_CACHE/plans, or ios_tf/plans in the user's cache
  // directory) by default; if that is set and empty, plans are kept in memory
  // only.
  static PlanCache& Get();

  std::optional<std::string> Find(const std::string& device,
                                  const std::string& convolution);
  void Insert(const std::string& device, const std::string& convolution,
              const std::string& plan);

 private:
  using Plans = std::map<std::string, std::string>;  // by convolution

  PlanCache();

  std::string Path(const std::string& device) const;
  void Load(const std::string& device);
  void Store(const std::string& device);

  std::mutex mutex_;
  std::string directory_;
  std::set<std::string> loaded_;        // devices
  std::map<std::string, Plans> plans_;  // by device
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_CACHE_H_

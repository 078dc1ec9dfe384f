// CodeCache: what compilers for the GPU have made before, on disk.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_CODE_CACHE_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_CODE_CACHE_H_

#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace ios::cuda {

// Code by a key that says all it was made of. Code runs, and nothing can tell
// what it computes: unlike a cache of schedules or of plans' names, its
// directory is the user's own. It and its files count only if they belong to
// the user and nobody else may write them.
class CodeCache {
 public:
  // The process's. Its directory is the environment's IOS_TF_CODE_CACHE,
  // ios_tf_code in the user's cache directory by default; if that is set and
  // empty, nothing is kept.
  static CodeCache& Get();

  explicit CodeCache(std::string directory)
      : directory_(std::move(directory)) {}

  // The code that was inserted for the key; nothing where it is damaged.
  std::optional<std::string> Find(const std::string& key);
  // By another name first, then renamed. Where that fails, one line says so,
  // and no more is kept.
  void Insert(const std::string& key, const std::string& code);

 private:
  // The directory, or -1 where there is none that is the user's own.
  int OpenDirectory();
  void GiveUp(const std::string& why);

  std::mutex mutex_;
  std::string directory_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_CODE_CACHE_H_

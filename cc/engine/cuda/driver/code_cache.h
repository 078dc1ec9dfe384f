// CodeCache: stores compiled GPU code on disk.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_CODE_CACHE_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_CODE_CACHE_H_

#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace ios::cuda {

// Maps a key to compiled code. The key contains everything from which the code
// was compiled. Cached code is executed without any check of what it computes.
// So this cache, unlike the caches of schedules and plan names, is private: its
// directory and files are used only if they belong to the user and nobody else
// may write to them.
class CodeCache {
 public:
  // Returns the cache of this process. Its directory is $IOS_TF_CODE_CACHE, or
  // ios_tf_code in the user's cache directory if the variable is not set. If
  // the variable is set but empty, nothing is cached.
  static CodeCache& Get();

  explicit CodeCache(std::string directory)
      : directory_(std::move(directory)) {}

  // Returns the code that was stored for the key, or nullopt if nothing was
  // stored or the file is damaged.
  std::optional<std::string> Find(const std::string& key);
  // Stores code, by writing a temporary file and renaming it. On failure,
  // prints one line and disables the cache.
  void Insert(const std::string& key, const std::string& code);

 private:
  // Opens the directory. Returns -1 if it does not exist or is not the user's
  // own.
  int OpenDirectory();
  void GiveUp(const std::string& why);

  std::mutex mutex_;
  std::string directory_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_CODE_CACHE_H_

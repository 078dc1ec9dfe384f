// CpuParameter: the weights of an operator, in the layouts that the CPU backend
// reads.
#ifndef IOS_TF_CC_ENGINE_CPU_ONEDNN_PARAMETER_H_
#define IOS_TF_CC_ENGINE_CPU_ONEDNN_PARAMETER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/host/float_memory.h"

namespace ios::cpu {

// A weight in all packed layouts that primitives have chosen. The plain array
// is freed when the first packed layout exists. Further layouts are computed
// from the first one.
class CpuParameter : public Parameter {
 public:
  // The memory of packed layouts comes from `pool`.
  CpuParameter(const ConstArray& array, FloatPool* pool);

  // Returns the weight in the layout `wanted`. `plain` describes the array that
  // was given to the constructor.
  dnnl::memory Packed(const dnnl::engine& engine,
                      const dnnl::memory::desc& plain,
                      const dnnl::memory::desc& wanted);
  const float* plain() const { return plain_.data(); }

  // Returns the weight in a layout of this project's kernels. This layout
  // replaces the array that was given to the constructor. `key` identifies the
  // layout. The first call for a key calls make(array, to), which must write
  // `floats` floats. If another layout is needed later, restore(from, array)
  // must restore the array, up to rounding.
  using Make = std::function<void(const float* plain, float* to)>;
  using Restore = std::function<void(const float* from, float* plain)>;
  std::shared_ptr<const float> Replaced(int64_t key, int64_t floats,
                                        const Make& make, Restore restore);

  // Returns the weight in a layout of this project's kernels, which `key`
  // identifies. The first call for a key calls `make`, which must write
  // `floats` floats.
  template <typename F>
  std::shared_ptr<const float> Derived(int key, int64_t floats, F&& make) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<float>& data = derived_[key];
    if (!data) {
      std::shared_ptr<float> made = pool_->Allocate(floats);
      if (!made) throw std::bad_alloc();
      make(made.get());
      data = std::move(made);
    }
    return data;
  }

 private:
  struct Layout {
    dnnl::memory memory;
    std::shared_ptr<float> data;
  };

  // Makes `plain_` again if it was replaced.
  void RestorePlain();

  FloatPool* const pool_;
  const int64_t size_;
  std::mutex mutex_;
  std::vector<float> plain_;
  std::map<int64_t, std::shared_ptr<float>> replacements_;
  std::function<void(float* plain)> restore_;
  std::vector<Layout> packed_;
  std::map<int, std::shared_ptr<float>> derived_;
};

inline CpuParameter* AsCpu(const std::shared_ptr<Parameter>& parameter) {
  return static_cast<CpuParameter*>(parameter.get());
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_ONEDNN_PARAMETER_H_

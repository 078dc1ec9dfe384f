// oneDNN primitives, each with the memory objects of its arguments.
#ifndef IOS_TF_CC_ENGINE_CPU_ONEDNN_PRIMITIVE_H_
#define IOS_TF_CC_ENGINE_CPU_ONEDNN_PRIMITIVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {

dnnl::memory::desc NhwcDesc(const Shape& shape);  // for a shape [N,H,W,C]
dnnl::memory::desc FlatDesc(int64_t n);

// Appends the activation to `ops` if oneDNN computes it as TensorFlow does.
// Returns the activation that the caller must still apply: kNone or
// `activation`. On some processors, oneDNN computes the following activations
// differently, so the caller applies them: oneDNN's relu and clip turn NaN into
// a number, its exp turns NaN into infinity, its gelu of infinity is NaN, and
// its softplus of -60 is 4e-6. The caller also applies swish, because oneDNN's
// swish takes longer than a separate pass with our own kernel.
Activation AppendActivation(const Activation& activation, dnnl::post_ops* ops);

// Returns attributes with these post-ops, for a primitive whose scratch memory
// the caller provides.
dnnl::primitive_attr AttributesWith(const dnnl::post_ops& ops);

// Returns true if the threads of the oneDNN implementation with this name wait
// for each other, in loops or barriers. The threads of oneDNN's matrix product
// (gemm_driver.cpp) do so.
bool ThreadsWaitForEachOther(const std::string& implementation);

class Primitive {
 public:
  template <typename PrimitiveDesc>
  void Create(const PrimitiveDesc& desc, const dnnl::engine& engine) {
    primitive_ = dnnl::primitive(desc);
    engine_ = engine;
    at_once_ = ThreadsWaitForEachOther(desc.impl_info_str());
    const dnnl::memory::desc scratchpad = desc.scratchpad_desc();
    scratchpad_floats_ = (scratchpad.get_size() + 3) / 4;
    if (scratchpad_floats_ > 0) {
      scratchpad_ = AddArgument(DNNL_ARG_SCRATCHPAD, scratchpad);
    }
  }

  // Adds an argument whose address is set before every call. Returns its
  // number.
  int AddArgument(int kind, const dnnl::memory::desc& desc) {
    return AddArgument(kind, dnnl::memory(desc, engine_, nullptr));
  }
  // Adds an argument whose address stays the same. Returns its number.
  int AddArgument(int kind, dnnl::memory value) {
    memories_.push_back(std::move(value));
    arguments_.push_back({kind, memories_.back().get()});
    return static_cast<int>(memories_.size()) - 1;
  }

  // Returns a copy that another thread can use, because it has its own argument
  // addresses.
  Primitive Clone() const;

  void Set(int argument, const float* data) {
    dnnl_memory_set_data_handle(memories_[argument].get(),
                                const_cast<float*>(data));
  }

  int64_t scratchpad_floats() const { return scratchpad_floats_; }

  void Execute(dnnl_stream_t stream, float* scratchpad) {
    if (scratchpad_ >= 0) Set(scratchpad_, scratchpad);
    std::optional<ScopedReadyThreads> at_once;
    if (at_once_) at_once.emplace();
    // The result is not checked, because this cannot fail: the arguments were
    // checked when the primitive was created.
    dnnl_primitive_execute(primitive_.get(), stream, arguments_.size(),
                           arguments_.data());
  }

 private:
  dnnl::primitive primitive_;
  dnnl::engine engine_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  int scratchpad_ = -1;
  bool at_once_ = false;
  int64_t scratchpad_floats_ = 0;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_ONEDNN_PRIMITIVE_H_

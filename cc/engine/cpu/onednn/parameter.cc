#include "cc/engine/cpu/onednn/parameter.h"

#include <new>
#include <utility>

namespace ios::cpu {

using dnnl::memory;

CpuParameter::CpuParameter(const ConstArray& array, FloatPool* pool)
    : pool_(pool), plain_(array.data, array.data + NumElements(array.shape)) {}

memory CpuParameter::Packed(const dnnl::engine& engine,
                            const memory::desc& plain,
                            const memory::desc& wanted) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Layout& layout : packed_) {
    if (layout.memory.get_desc() == wanted) return layout.memory;
  }
  memory source = packed_.empty() ? memory(plain, engine, plain_.data())
                                  : packed_.front().memory;
  Layout layout;
  layout.data = pool_->Allocate((wanted.get_size() + 3) / 4);
  if (!layout.data) throw std::bad_alloc();
  layout.memory = memory(wanted, engine, layout.data.get());
  dnnl::stream stream(engine);
  dnnl::reorder(source, layout.memory).execute(stream, source, layout.memory);
  stream.wait();
  packed_.push_back(std::move(layout));
  std::vector<float>().swap(plain_);
  return packed_.back().memory;
}

}  // namespace ios::cpu

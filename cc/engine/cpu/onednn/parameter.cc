#include "cc/engine/cpu/onednn/parameter.h"

#include <new>
#include <utility>

namespace ios::cpu {

using dnnl::memory;

namespace {

void Reorder(const dnnl::engine& engine, memory from, memory to) {
  dnnl::stream stream(engine);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
}

}  // namespace

CpuParameter::CpuParameter(const ConstArray& array, FloatPool* pool)
    : pool_(pool),
      size_(NumElements(array.shape)),
      plain_(array.data, array.data + size_) {}

memory CpuParameter::Packed(const dnnl::engine& engine,
                            const memory::desc& plain,
                            const memory::desc& wanted) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Layout& layout : packed_) {
    if (layout.memory.get_desc() == wanted) return layout.memory;
  }
  if (packed_.empty()) RestorePlain();
  memory source = packed_.empty() ? memory(plain, engine, plain_.data())
                                  : packed_.front().memory;
  Layout layout;
  layout.data = pool_->Allocate((wanted.get_size() + 3) / 4);
  if (!layout.data) throw std::bad_alloc();
  layout.memory = memory(wanted, engine, layout.data.get());
  Reorder(engine, source, layout.memory);
  packed_.push_back(std::move(layout));
  restore_ = [engine, plain, packed = packed_.back().memory](float* array) {
    Reorder(engine, packed, memory(plain, engine, array));
  };
  std::vector<float>().swap(plain_);
  return packed_.back().memory;
}

std::shared_ptr<const float> CpuParameter::Replaced(int64_t key, int64_t floats,
                                                    const Make& make,
                                                    Restore restore) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<float>& data = replacements_[key];
  if (data) return data;
  RestorePlain();
  std::shared_ptr<float> made = pool_->Allocate(floats);
  if (!made) throw std::bad_alloc();
  make(plain_.data(), made.get());
  data = std::move(made);
  restore_ = [data, restore = std::move(restore)](float* plain) {
    restore(data.get(), plain);
  };
  std::vector<float>().swap(plain_);
  return data;
}

void CpuParameter::RestorePlain() {
  if (!plain_.empty() || !restore_) return;
  plain_.resize(size_);
  restore_(plain_.data());
}

}  // namespace ios::cpu

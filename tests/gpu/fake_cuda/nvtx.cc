// The fake libnvToolsExt. It records the names of ranges, indented by their
// nesting depth.
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string ranges;
thread_local int depth = 0;

}  // namespace

extern "C" {

int nvtxRangePushA(const char* name) {
  std::lock_guard<std::mutex> lock(mutex);
  ranges += std::string(depth, ' ') + name + "\n";
  return depth++;
}

int nvtxRangePop() { return --depth; }

// Returns the ranges since the last call, one per line, in the order of their
// begins.
const char* fake_nvtx_take() {
  static std::string taken;
  std::lock_guard<std::mutex> lock(mutex);
  taken.swap(ranges);
  ranges.clear();
  return taken.c_str();
}

}  // extern "C"

#include "cache.h"

namespace fake {

int64_t Cache::Use(const Range& range, int64_t capacity) {
  if (range.bytes == 0) return 0;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(range.begin);
  const uintptr_t last = (begin + range.bytes - 1) / kLineBytes;
  int64_t missing = 0;
  for (uintptr_t line = begin / kLineBytes; line <= last; ++line) {
    const auto [place, is_new] = places_.try_emplace(line);
    if (is_new) {
      missing += kLineBytes;
    } else {
      lines_.erase(place->second);
    }
    lines_.push_front(line);
    place->second = lines_.begin();
    while (static_cast<int64_t>(lines_.size()) * kLineBytes > capacity) {
      places_.erase(lines_.back());
      lines_.pop_back();
    }
  }
  return missing;
}

}  // namespace fake

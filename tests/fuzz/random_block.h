// Blocks and legal schedules made of a fuzzer's bytes.
#ifndef IOS_TF_TESTS_FUZZ_RANDOM_BLOCK_H_
#define IOS_TF_TESTS_FUZZ_RANDOM_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"

namespace ios::fuzz {

// Numbers made of bytes, and of nothing when there are no more.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}

  // In [0, n).
  int64_t Below(int64_t n) { return data_ == end_ ? 0 : *data_++ % n; }
  bool Flip() { return Below(2) == 1; }
  bool empty() const { return data_ == end_; }

 private:
  const uint8_t* data_;
  const uint8_t* const end_;
};

// Up to eight operators of small images; those that do not fit are left out, so
// that it is valid if it has an operator at all.
Block RandomBlock(Bytes* bytes);

// Valid for the block, which is valid.
Schedule RandomSchedule(const Block& block, Bytes* bytes);

}  // namespace ios::fuzz

#endif  // IOS_TF_TESTS_FUZZ_RANDOM_BLOCK_H_

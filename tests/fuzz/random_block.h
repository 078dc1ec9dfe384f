// Generates blocks and legal schedules from a fuzzer's bytes.
#ifndef IOS_TF_TESTS_FUZZ_RANDOM_BLOCK_H_
#define IOS_TF_TESTS_FUZZ_RANDOM_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"

namespace ios::fuzz {

// Generates numbers from bytes. When all bytes have been used, all further
// numbers are 0.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}

  // Returns a number in [0, n).
  int64_t Below(int64_t n) { return data_ == end_ ? 0 : *data_++ % n; }
  bool Flip() { return Below(2) == 1; }
  bool empty() const { return data_ == end_; }

 private:
  const uint8_t* data_;
  const uint8_t* const end_;
};

// Returns a block of at most eight operators on small images. Operators with
// illegal attributes or inputs are left out. So the block is valid unless it
// has no operators.
Block RandomBlock(Bytes* bytes);

// Returns a valid schedule for a valid block.
Schedule RandomSchedule(const Block& block, Bytes* bytes);

}  // namespace ios::fuzz

#endif  // IOS_TF_TESTS_FUZZ_RANDOM_BLOCK_H_

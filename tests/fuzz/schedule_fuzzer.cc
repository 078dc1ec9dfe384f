// Reads any text as a file of a schedule cache. The text must be refused, or it
// is a schedule by which merges can be lowered to a valid block.
#include <cstddef>
#include <cstdint>
#include <string>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/transforms/lower_merges.h"
#include "tests/cc/blocks.h"
#include "tests/fuzz/check.h"

namespace {

// Returns a block of five operators: 0, 1 and 3 may merge, 2 reads 0, and 4
// concatenates 1, 2 and 3.
const ios::Block& TheBlock() {
  using ios::testing::Conv;
  using ios::testing::Join;
  static const ios::Block* const block = new ios::Block(ios::testing::MakeBlock(
      {Conv(-1, 2, 1), Conv(-1, 3, 3), Conv(0, 4, 3), Conv(-1, 1, 5),
       Join(ios::OperatorType::kConcat, {1, 2, 3})},
      {4}));
  return *block;
}

void CheckLowered(const ios::Schedule& schedule) {
  const ios::StatusOr<ios::Lowered> lowered =
      ios::LowerMerges(TheBlock(), schedule);
  FUZZ_CHECK(lowered.ok());
  FUZZ_CHECK(ios::Validate(lowered->block).ok());
  FUZZ_CHECK(ios::Validate(lowered->schedule, lowered->block).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ios::StatusOr<ios::Schedule> any = ios::ScheduleFromJson(text);
  const ios::StatusOr<ios::Schedule> cached =
      ios::ParseSchedule(text, TheBlock());
  FUZZ_CHECK(any.ok() || !cached.ok());
  if (!any.ok()) return 0;
  (void)ios::ValidateStages(any->stages, TheBlock()).ok();
  const std::string json = ios::ToJson(*any);
  const ios::StatusOr<ios::Schedule> again = ios::ScheduleFromJson(json);
  FUZZ_CHECK(again.ok() && ios::ToJson(*again) == json);
  if (ios::Validate(*any, TheBlock()).ok()) CheckLowered(*any);
  if (cached.ok()) CheckLowered(*cached);
  return 0;
}

// Reads any text as the attribute `program` of an IosRegion node. The text must
// be refused, or its schedules must be valid.
#include <cstddef>
#include <cstdint>
#include <string>

#include "cc/tensorflow/ops/program_json.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto program = ios::tf::RegionProgramFromJson(text);
  if (!program.ok()) return 0;
  FUZZ_CHECK(!program->schedules.empty());
  for (const auto& [load, schedule] : program->schedules) {
    FUZZ_CHECK(load.batch > 0 && load.callers > 0 &&
               ios::Validate(schedule, program->block).ok());
  }
  const std::string json = ios::tf::ToJson(*program);
  const auto again = ios::tf::RegionProgramFromJson(json);
  FUZZ_CHECK(again.ok() && ios::tf::ToJson(*again) == json);
  return 0;
}

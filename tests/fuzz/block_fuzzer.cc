// Reads any text as the JSON of a block. The text must be refused with an error
// message, or the block's JSON, problem and signature must be computable.
#include <cstddef>
#include <cstdint>
#include <string>

#include "cc/core/ir/block.h"
#include "cc/core/ir/problem.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ios::StatusOr<ios::Block> block = ios::BlockFromJson(text);
  if (!block.ok()) {
    FUZZ_CHECK(!block.status().message().empty());
    return 0;
  }
  const std::string json = ios::ToJson(*block);
  const ios::StatusOr<ios::Block> again = ios::BlockFromJson(json);
  FUZZ_CHECK(again.ok() && ios::ToJson(*again) == json);
  FUZZ_CHECK(ios::ProblemJson(*block).ok());
  FUZZ_CHECK(ios::Signature(*block) == ios::Signature(*again));
  return 0;
}

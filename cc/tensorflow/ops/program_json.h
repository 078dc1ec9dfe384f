// The `program` attribute of the IosRegion op:
// {"block": …,
//  "schedules": [{"batch_size": int, "callers": int, "schedule": …}, …],
//  "parameters": [{"weight": int, "swaps": [[int, int, int, int], …]}, …]}.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_PROGRAM_JSON_H_
#define IOS_TF_CC_TENSORFLOW_OPS_PROGRAM_JSON_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"

namespace ios::tf {

// A weight that comes from a variable and is read when the region runs, and the
// transpositions (`swaps`) of its Recipe.
struct WeightParameter {
  int weight;  // index into the weights of all operators
  std::vector<std::array<int64_t, 4>> swaps;
};

struct RegionProgram {
  Block block;
  Schedules schedules;  // one or more
  std::vector<WeightParameter> parameters;
};

std::string ToJson(const RegionProgram& program);
StatusOr<RegionProgram> RegionProgramFromJson(const std::string& json);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_PROGRAM_JSON_H_

// The `program` attribute of the IosRegion op:
// {"block": …, "schedules": [{"batch_size": int, "schedule": …}, …]}.
#ifndef IOS_TF_CC_TENSORFLOW_PROGRAM_JSON_H_
#define IOS_TF_CC_TENSORFLOW_PROGRAM_JSON_H_

#include <string>

#include "cc/core/block.h"
#include "cc/core/schedule.h"
#include "cc/core/status.h"

namespace ios::tf {

struct RegionProgram {
  Block block;
  BatchSchedules schedules;  // one or more
};

std::string ToJson(const RegionProgram& program);
StatusOr<RegionProgram> RegionProgramFromJson(const std::string& json);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PROGRAM_JSON_H_

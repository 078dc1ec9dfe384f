// Converts blocks, operators and schedules to and from nlohmann::json values,
// for code that builds larger documents from them.
#ifndef IOS_TF_CC_CORE_IR_BLOCK_JSON_H_
#define IOS_TF_CC_CORE_IR_BLOCK_JSON_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"

namespace ios {

nlohmann::json DtypesToJsonValue(const std::vector<DataType>& dtypes);
nlohmann::json OperatorToJsonValue(const Operator& op);
nlohmann::json BlockToJsonValue(const Block& block);
StatusOr<Block> BlockFromJsonValue(const nlohmann::json& json);
// Reads a schedule. Other members of the JSON object, such as latencies and the
// device, are ignored.
StatusOr<Schedule> ScheduleFromJsonValue(const nlohmann::json& json);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_BLOCK_JSON_H_

#include "cc/tensorflow/program_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "cc/core/block_json.h"

namespace ios::tf {

std::string ToJson(const RegionProgram& program) {
  std::string schedules;
  for (const auto& [batch, schedule] : program.schedules) {
    if (!schedules.empty()) schedules += ",";
    schedules += "{\"batch_size\":" + std::to_string(batch) +
                 ",\"schedule\":" + ios::ToJson(schedule) + "}";
  }
  return "{\"block\":" + ios::ToJson(program.block) + ",\"schedules\":[" +
         schedules + "]}";
}

StatusOr<RegionProgram> RegionProgramFromJson(const std::string& json) {
  IOS_ASSIGN_OR_RETURN(const nlohmann::json value,
                       ParseDocument(json, "program"));
  const auto block = value.find("block"), schedules = value.find("schedules");
  if (block == value.end() || schedules == value.end() ||
      !schedules->is_array() || schedules->empty()) {
    return InvalidArgument(
        "program is not a JSON object with \"block\" and \"schedules\"");
  }
  RegionProgram program;
  IOS_ASSIGN_OR_RETURN(program.block, BlockFromJsonValue(*block));
  for (const nlohmann::json& item : *schedules) {
    int64_t batch_size = 0;
    if (!item.is_object() || !item.contains("schedule") ||
        !item.contains("batch_size") ||
        !ReadInteger(item["batch_size"], &batch_size) || batch_size < 1) {
      return InvalidArgument(
          "a schedule of the program is not a JSON object with \"batch_size\" "
          "and \"schedule\"");
    }
    IOS_ASSIGN_OR_RETURN(Schedule schedule,
                         ScheduleFromJsonValue(item["schedule"]));
    IOS_RETURN_IF_ERROR(Validate(schedule, program.block));
    program.schedules[batch_size] = std::move(schedule);
  }
  return program;
}

}  // namespace ios::tf

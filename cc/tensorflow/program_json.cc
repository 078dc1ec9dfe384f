#include "cc/tensorflow/program_json.h"

#include <nlohmann/json.hpp>
#include <utility>

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
  const nlohmann::json value =
      nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("block") ||
      !value.contains("schedules") || !value["schedules"].is_array() ||
      value["schedules"].empty()) {
    return InvalidArgument(
        "program is not a JSON object with \"block\" and \"schedules\"");
  }
  RegionProgram program;
  IOS_ASSIGN_OR_RETURN(program.block, BlockFromJson(value["block"].dump()));
  IOS_RETURN_IF_ERROR(Validate(program.block));
  for (const nlohmann::json& item : value["schedules"]) {
    if (!item.is_object() || !item.contains("schedule") ||
        !item.contains("batch_size") ||
        !item["batch_size"].is_number_integer()) {
      return InvalidArgument(
          "a schedule of the program is not a JSON object with \"batch_size\" "
          "and \"schedule\"");
    }
    IOS_ASSIGN_OR_RETURN(Schedule schedule,
                         ScheduleFromJson(item["schedule"].dump()));
    IOS_RETURN_IF_ERROR(Validate(schedule, program.block));
    program.schedules[item["batch_size"].get<int64_t>()] = std::move(schedule);
  }
  return program;
}

}  // namespace ios::tf

#include "cc/tensorflow/program_json.h"

#include <nlohmann/json.hpp>

namespace ios::tf {

std::string ToJson(const RegionProgram& program) {
  return "{\"block\":" + ios::ToJson(program.block) +
         ",\"schedule\":" + ios::ToJson(program.schedule) + "}";
}

StatusOr<RegionProgram> RegionProgramFromJson(const std::string& json) {
  const nlohmann::json value =
      nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("block") ||
      !value.contains("schedule")) {
    return InvalidArgument(
        "program is not a JSON object with \"block\" and \"schedule\"");
  }
  RegionProgram program;
  IOS_ASSIGN_OR_RETURN(program.block, BlockFromJson(value["block"].dump()));
  IOS_ASSIGN_OR_RETURN(program.schedule,
                       ScheduleFromJson(value["schedule"].dump()));
  IOS_RETURN_IF_ERROR(Validate(program.block));
  IOS_RETURN_IF_ERROR(Validate(program.schedule, program.block));
  return program;
}

}  // namespace ios::tf

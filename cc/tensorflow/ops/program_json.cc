#include "cc/tensorflow/ops/program_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/ir/block_json.h"

namespace ios::tf {

std::string ToJson(const RegionProgram& program) {
  std::string schedules;
  for (const auto& [load, schedule] : program.schedules) {
    if (!schedules.empty()) schedules += ",";
    schedules += "{\"batch_size\":" + std::to_string(load.batch) +
                 ",\"callers\":" + std::to_string(load.callers) +
                 ",\"schedule\":" + ios::ToJson(schedule) + "}";
  }
  nlohmann::json parameters = nlohmann::json::array();
  for (const WeightParameter& parameter : program.parameters) {
    parameters.push_back(
        {{"weight", parameter.weight}, {"swaps", parameter.swaps}});
  }
  return "{\"block\":" + ios::ToJson(program.block) + ",\"schedules\":[" +
         schedules + "],\"parameters\":" + parameters.dump() + "}";
}

namespace {

Status ReadParameter(const nlohmann::json& json, WeightParameter* parameter) {
  const Status wrong = InvalidArgument(
      "a parameter of the program is not a JSON object with \"weight\" and "
      "\"swaps\" (a list of lists of four dimensions)");
  if (!json.is_object() || !json.contains("weight") ||
      !ReadInteger(json["weight"], &parameter->weight) ||
      parameter->weight < 0 || !json.contains("swaps") ||
      !json["swaps"].is_array()) {
    return wrong;
  }
  for (const nlohmann::json& item : json["swaps"]) {
    std::array<int64_t, 4>& sizes = parameter->swaps.emplace_back();
    if (!item.is_array() || item.size() != sizes.size()) return wrong;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (!ReadInteger(item[d], &sizes[d])) return wrong;
    }
  }
  return Status();
}

}  // namespace

StatusOr<RegionProgram> RegionProgramFromJson(const std::string& json) {
  IOS_ASSIGN_OR_RETURN(const nlohmann::json value,
                       ParseDocument(json, "program"));
  const auto block = value.find("block"), schedules = value.find("schedules");
  if (block == value.end() || schedules == value.end() ||
      !schedules->is_array() || schedules->empty()) {
    return InvalidArgument(
        "the attribute 'program' is not a JSON object with \"block\" and a "
        "nonempty array \"schedules\"");
  }
  RegionProgram program;
  IOS_ASSIGN_OR_RETURN(program.block, BlockFromJsonValue(*block));
  for (const nlohmann::json& item : *schedules) {
    Load load;
    if (!item.is_object() || !item.contains("schedule") ||
        !item.contains("batch_size") ||
        !ReadInteger(item["batch_size"], &load.batch) || load.batch < 1 ||
        (item.contains("callers") &&
         (!ReadInteger(item["callers"], &load.callers) || load.callers < 1))) {
      return InvalidArgument(
          "a schedule of the program is not a JSON object with \"batch_size\" "
          "and \"schedule\"");
    }
    IOS_ASSIGN_OR_RETURN(Schedule schedule,
                         ScheduleFromJsonValue(item["schedule"]));
    IOS_RETURN_IF_ERROR(Validate(schedule, program.block));
    program.schedules[load] = std::move(schedule);
  }
  const auto parameters = value.find("parameters");
  if (parameters == value.end()) return program;
  if (!parameters->is_array()) {
    return InvalidArgument("the program's \"parameters\" are not an array");
  }
  for (const nlohmann::json& item : *parameters) {
    IOS_RETURN_IF_ERROR(
        ReadParameter(item, &program.parameters.emplace_back()));
  }
  return program;
}

}  // namespace ios::tf

#include "cc/tensorflow/ops/region_watch.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/ir/block_json.h"

namespace ios::tf {
namespace {

template <typename T>
bool Read(const nlohmann::json& json, const char* name, T* value) {
  const auto found = json.find(name);
  if (found == json.end()) return false;
  if constexpr (std::is_same_v<T, bool>) {
    if (!found->is_boolean()) return false;
    *value = found->get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) return false;
    *value = found->get<std::string>();
  } else {
    return ReadInteger(*found, value);
  }
  return true;
}

StatusOr<WatchedBlock> ReadBlock(const nlohmann::json& json) {
  WatchedBlock result;
  if (!json.is_object() || !json.contains("block") ||
      !Read(json, "is_searched", &result.is_searched) ||
      !Read(json, "is_cached", &result.is_cached) ||
      !Read(json, "modified_ns", &result.version.modified_ns) ||
      !Read(json, "bytes", &result.version.bytes)) {
    return InvalidArgument("a block of the attribute 'watch' is incomplete");
  }
  IOS_ASSIGN_OR_RETURN(result.block, BlockFromJsonValue(json["block"]));
  if (!json.contains("schedule")) return result;
  IOS_ASSIGN_OR_RETURN(Schedule schedule,
                       ScheduleFromJsonValue(json["schedule"]));
  IOS_RETURN_IF_ERROR(Validate(schedule, result.block));
  result.schedule = std::move(schedule);
  return result;
}

}  // namespace

std::string ToJson(const RegionWatch& watch) {
  std::string blocks;
  for (const WatchedBlock& watched : watch.blocks) {
    const nlohmann::json rest = {{"is_searched", watched.is_searched},
                                 {"is_cached", watched.is_cached},
                                 {"modified_ns", watched.version.modified_ns},
                                 {"bytes", watched.version.bytes}};
    if (!blocks.empty()) blocks += ",";
    blocks += "{\"block\":" + ios::ToJson(watched.block);
    if (watched.schedule) {
      blocks += ",\"schedule\":" + ios::ToJson(*watched.schedule);
    }
    blocks += "," + rest.dump().substr(1);
  }
  const nlohmann::json rest = {{"key", watch.key},
                               {"cache_dir", watch.cache_dir},
                               {"device", watch.engine_device},
                               {"waits", watch.waits}};
  return "{\"blocks\":[" + blocks + "]," +
         rest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
             .substr(1);
}

StatusOr<RegionWatch> RegionWatchFromJson(const std::string& json) {
  IOS_ASSIGN_OR_RETURN(const nlohmann::json value,
                       ParseDocument(json, "watch"));
  RegionWatch watch;
  const auto blocks = value.find("blocks");
  if (!Read(value, "key", &watch.key) ||
      !Read(value, "cache_dir", &watch.cache_dir) ||
      !Read(value, "device", &watch.engine_device) ||
      !Read(value, "waits", &watch.waits) || blocks == value.end() ||
      !blocks->is_array()) {
    return InvalidArgument("the attribute 'watch' is incomplete");
  }
  for (const nlohmann::json& item : *blocks) {
    IOS_ASSIGN_OR_RETURN(WatchedBlock block, ReadBlock(item));
    watch.blocks.push_back(std::move(block));
  }
  return watch;
}

std::optional<Schedule> JoinSchedules(const std::vector<WatchedBlock>& blocks) {
  Schedule result;
  int first = 0;
  for (const WatchedBlock& watched : blocks) {
    if (!watched.schedule) return std::nullopt;
    for (Stage stage : watched.schedule->stages) {
      for (std::vector<int>& group : stage.groups) {
        for (int& op : group) op += first;
      }
      result.stages.push_back(std::move(stage));
    }
    for (const auto& [op, algorithm] : watched.schedule->algorithms) {
      result.algorithms[first + op] = algorithm;
    }
    first += watched.block.operators.size();
  }
  return result;
}

}  // namespace ios::tf

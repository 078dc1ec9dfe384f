#include "cc/tensorflow/plugin/runtime_api.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cc/engine/devices.h"
#include "cc/tensorflow/cache/schedule_cache.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/ops/region_kernel.h"
#include "cc/tensorflow/ops/watched_region.h"
#include "cc/tensorflow/plugin/runtime.h"
#include "cc/tensorflow/plugin/search_queue.h"
#include "cc/tensorflow/warn.h"

using ::ios::tf::SearchQueue;

namespace {

// Returns the value of `function`, or the value of `otherwise` if `function`
// throws, because exceptions must not reach C code.
template <typename F, typename G>
auto NoThrow(F&& function, G&& otherwise) noexcept -> decltype(otherwise()) {
  try {
    return function();
  } catch (const std::exception&) {
    return otherwise();
  }
}

char* Null() { return nullptr; }

// Enables the plugin, or returns a message that says which argument is wrong.
char* Enable(const char* cache_dir, const char* on_miss, int64_t batch_size,
             int64_t callers, const char* precision) {
  const absl::StatusOr<ios::tf::OnMiss> parsed =
      ios::tf::OnMissFromString(on_miss);
  if (!parsed.ok()) {
    return strdup(std::string(parsed.status().message()).c_str());
  }
  if (batch_size < 1 || callers < 1) {
    return strdup(absl::StrCat("batch_size is ", batch_size, " and callers is ",
                               callers, ", but both must be positive")
                      .c_str());
  }
  const absl::StatusOr<ios::tf::Precision> of_operators =
      ios::tf::PrecisionFromString(precision);
  if (!of_operators.ok()) {
    return strdup(std::string(of_operators.status().message()).c_str());
  }
  ios::tf::SetProcessOptions(ios::tf::RuntimeOptions{
      cache_dir, *parsed, batch_size, callers, *of_operators});
  return nullptr;
}

char* StatusJson() {
  const std::optional<ios::tf::RuntimeOptions> options =
      ios::tf::ProcessOptions();
  const ios::tf::RuntimeCounts counts = ios::tf::Counts();
  nlohmann::json status = {
      {"enabled", options.has_value()},
      {"counts",
       {{"annotated_graphs", counts.annotated},
        {"scheduled_graphs", counts.scheduled},
        {"passed_graphs", counts.passed},
        {"graphs_not_frozen", counts.not_frozen},
        {"regions", counts.regions},
        {"blocks_cached", counts.cached},
        {"blocks_greedy", counts.greedy},
        {"blocks_searched", counts.searched},
        {"blocks_missed", counts.missed},
        {"schedules_picked_up", counts.picked_up},
        {"failed_captures", ios::FailedCaptures()},
        {"warnings", ios::tf::ScheduleCache::warnings()}}}};
  const int64_t now_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count();
  status["regions"] = nlohmann::json::array();
  for (const ios::tf::WatchedRegion::State& region :
       ios::tf::WatchedRegion::States()) {
    nlohmann::json age_s;  // null: no schedule comes from a file with a time
    if (region.oldest_ns > 0) age_s = (now_ns - region.oldest_ns) / 1e9;
    status["regions"].push_back({{"name", region.name},
                                 {"waits", region.waits},
                                 {"blocks", region.blocks},
                                 {"missing", region.missing},
                                 {"age_s", age_s},
                                 {"picked_up", region.picked_up}});
  }
  status["refresh_s"] = ios::tf::RefreshSeconds();
  if (options) {
    status["cache_dir"] = options->cache_dir;
    status["on_miss"] = ios::tf::ToString(options->on_miss);
    status["batch_size"] = options->batch_size;
    status["callers"] = options->callers;
    status["precision"] = ios::ToString(options->precision.dtype);
  }
  return strdup(
      status.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
          .c_str());
}

char* Search(const char* problem) {
  const ios::StatusOr<std::string> found =
      SearchQueue::Global().Search(problem);
  return found.ok() ? strdup(found->c_str()) : nullptr;
}

int64_t Take(char** problem) {
  std::string text;
  const int64_t number = SearchQueue::Global().Take(&text);
  *problem = number ? strdup(text.c_str()) : nullptr;
  return number;
}

void Give(int64_t number, const char* schedule, const char* error) {
  if (schedule) {
    SearchQueue::Global().Give(number, std::string(schedule));
  } else {
    SearchQueue::Global().Give(number, ios::Internal(error));
  }
}

}  // namespace

extern "C" {

void ios_tf_free_string(char* text) { std::free(text); }

char* ios_tf_enable(const char* cache_dir, const char* on_miss,
                    int64_t batch_size, int64_t callers,
                    const char* precision) {
  return NoThrow(
      [&] {
        return Enable(cache_dir, on_miss, batch_size, callers, precision);
      },
      [] { return strdup("out of memory"); });
}

char* ios_tf_names(void) {
  return NoThrow([] { return strdup(ios::tf::NamesJson().c_str()); }, Null);
}

void ios_tf_disable(void) {
  NoThrow([] { ios::tf::SetProcessOptions(std::nullopt); }, [] {});
}

char* ios_tf_status(void) { return NoThrow(StatusJson, Null); }

void ios_tf_show_warnings(void) { ios::tf::ShowWarnings(); }

int64_t ios_tf_packings(void) { return ios::tf::RegionPackings(); }

void ios_tf_set_computes_bfloat16(int computes) {
  ios::tf::SetComputesBFloat16(computes != 0);
}

char* ios_tf_search(const char* problem) {
  return NoThrow([&] { return Search(problem); }, Null);
}

void ios_tf_open_search(int (*holds_lock)(void), void* (*release_lock)(void),
                        void (*acquire_lock)(void*), int patience_ms) {
  NoThrow(
      [&] {
        SearchQueue::Global().Open({holds_lock, release_lock, acquire_lock},
                                   std::chrono::milliseconds(patience_ms));
      },
      [] {});
}

void ios_tf_close_search(void) {
  NoThrow([] { SearchQueue::Global().Close(); }, [] {});
}

int64_t ios_tf_take_problem(char** problem) {
  // If memory for the problem is missing, returns 0, which ends the searching
  // thread.
  return NoThrow([&] { return Take(problem); },
                 [&]() -> int64_t {
                   *problem = nullptr;
                   return 0;
                 });
}

int ios_tf_begin_search(int64_t number) {
  return NoThrow([&]() -> int { return SearchQueue::Global().Begin(number); },
                 [] { return 0; });
}

void ios_tf_give_schedule(int64_t number, const char* schedule,
                          const char* error) {
  NoThrow([&] { Give(number, schedule, error); }, [] {});
}

}  // extern "C"

#include "cc/tensorflow/plugin/annotated_schedules.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/graph/annotations.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// The places of one operator in its schedules.
using Places = std::map<Load, StagePlace>;

Places ByLoad(const NodeDef& node) {
  Places places;
  for (const StagePlace& place : Annotations(node)) {
    places.try_emplace(place.load, place);
  }
  return places;
}

// Returns the places of an operator's output node. If a pass of TensorFlow has
// replaced this node, returns, for each load, the place with the latest stage
// among the operator's other nodes.
Places AnnotatedPlaces(const Partition& partition, const ImportedOperator& op) {
  const GraphView& graph = partition.graph();
  Places places = ByLoad(graph.node(op.output.node));
  if (!places.empty()) return places;
  for (int i : op.nodes) {
    for (const auto& [load, place] : ByLoad(graph.node(i))) {
      StagePlace& latest = places.try_emplace(load, place).first->second;
      if (latest.stage < place.stage) latest = place;
    }
  }
  return places;
}

using OptionalPlaces = std::vector<std::optional<StagePlace>>;
// A time in the schedule: the number of an annotated stage, and a number of
// steps after this stage.
using Moment = std::pair<int64_t, int>;

// Returns when each operator runs. An operator has no place if its block is not
// scheduled, or if a pass of TensorFlow has created its nodes. Such an operator
// runs in a separate stage after the last stage of its inputs. If its first
// reader is also in that last stage, it runs in that stage instead.
std::vector<Moment> Moments(const Block& block, const OptionalPlaces& places) {
  const int n = block.operators.size();
  std::vector<int64_t> first_reader(n, std::numeric_limits<int64_t>::max());
  for (int i = n - 1; i >= 0; --i) {
    const int64_t own = places[i] ? places[i]->stage : first_reader[i];
    for (int ref : block.operators[i].inputs) {
      if (ref >= 0) first_reader[ref] = std::min(first_reader[ref], own);
    }
  }
  std::vector<Moment> when(n);
  for (int i = 0; i < n; ++i) {
    if (places[i]) {
      when[i] = {places[i]->stage, 0};
      continue;
    }
    when[i] = {-1, 0};
    for (int ref : block.operators[i].inputs) {
      if (ref >= 0) when[i] = std::max(when[i], when[ref]);
    }
    if (when[i].first != first_reader[i]) ++when[i].second;
  }
  return when;
}

// Returns the stage for operators that run at the same time. Operators without
// a place come last in their groups.
Stage AnnotatedStage(const Block& block, const OptionalPlaces& places,
                     const std::vector<int>& operators) {
  const bool merges =
      operators.size() > 1 &&
      std::all_of(operators.begin(), operators.end(),
                  [&](int i) { return places[i] && places[i]->merge; });
  if (merges) return {Strategy::kMerge, {operators}};
  int64_t micro_batches = 1;
  for (int i : operators) {
    if (places[i]) {
      micro_batches = std::max(micro_batches, places[i]->micro_batches);
    }
  }
  if (micro_batches > 1) {
    return {Strategy::kSplit, {operators}, micro_batches};
  }
  return {Strategy::kConcurrent, ConnectedComponents(block, operators)};
}

// Returns the schedule that the operators' places describe.
Schedule AnnotatedSchedule(const Block& block, const OptionalPlaces& places) {
  const int n = block.operators.size();
  const std::vector<Moment> when = Moments(block, places);
  std::map<Moment, std::vector<int>> by_moment;
  for (int i = 0; i < n; ++i) by_moment[when[i]].push_back(i);
  Schedule schedule;
  for (const auto& [moment, operators] : by_moment) {
    if (moment.second == 0) {
      schedule.stages.push_back(AnnotatedStage(block, places, operators));
      continue;
    }
    // These operators have no schedule and run one after the other.
    for (int i : operators) {
      schedule.stages.push_back({Strategy::kConcurrent, {{i}}});
    }
  }
  for (int i = 0; i < n; ++i) {
    // The algorithm is checked, because a node that belongs to several
    // operators has the place of only one of them.
    if (places[i] && places[i]->algorithm != Algorithm::kDirect &&
        MayCompute(block.operators[i], places[i]->algorithm)) {
      schedule.algorithms[i] = places[i]->algorithm;
    }
  }
  return schedule;
}
}  // namespace

RegionScheduler AnnotatedSchedules(const Partition& partition) {
  return [&partition](const Region& region, const Block& block,
                      const std::string&) {
    std::vector<Places> places;
    Schedules schedules;
    for (int k : region.operators) {
      places.push_back(AnnotatedPlaces(partition, partition.operators[k]));
      for (const auto& entry : places.back()) schedules[entry.first] = {};
    }
    for (auto& [load, schedule] : schedules) {
      std::vector<std::optional<StagePlace>> of_load;
      for (const Places& of_operator : places) {
        // An operator may have no schedule for this load, because one region
        // may contain models from several conversions for different loads. The
        // nearest load is then used.
        const auto nearest = NearestLoad(of_operator, load);
        of_load.push_back(nearest == of_operator.end()
                              ? std::nullopt
                              : std::make_optional(nearest->second));
      }
      schedule = AnnotatedSchedule(block, of_load);
    }
    return RegionSchedules{std::move(schedules), std::nullopt};
  };
}
}  // namespace ios::tf

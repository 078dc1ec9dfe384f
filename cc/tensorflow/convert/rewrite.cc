#include "cc/tensorflow/convert/rewrite.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/core/ir/merge.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/convert/merged_convolution.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/graph/graph_editor.h"
#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/status_util.h"
#include "cc/tensorflow/warn.h"

namespace ios::tf {
namespace {

StatusOr<Schedule> ReadSchedule(
    const std::map<std::string, std::string>& schedules, const Block& block) {
  const auto found = schedules.find(Signature(block));
  if (found == schedules.end()) return NotFound("the block has no schedule");
  IOS_ASSIGN_OR_RETURN(Schedule schedule, ScheduleFromJson(found->second));
  IOS_RETURN_IF_ERROR(Validate(schedule, block));
  return schedule;
}

// A block of the graph. Its shapes differ between the loads (batch sizes and
// numbers of callers) of the request.
struct LoadedBlock {
  PartitionBlock made;        // for the first load of the request
  std::vector<Block> blocks;  // one per load of the request
  // One per load of the request, with the batch size of the block's region.
  std::vector<Load> loads;
};

// Returns the blocks of `partition`, in the order in which they run, except
// those in the regions `left`.
std::vector<LoadedBlock> BlocksOf(const Partition& partition,
                                  const std::set<int64_t>& left) {
  std::vector<LoadedBlock> blocks;
  for (size_t r = 0; r < partition.regions.size(); ++r) {
    if (left.count(r) > 0) continue;
    const Region& region = partition.regions[r];
    const Load load = LoadOf(MakeBlock(partition, region.operators, "").block);
    for (const std::vector<int>& operators : region.blocks) {
      PartitionBlock made = MakeBlock(partition, operators, "");
      Block block = made.block;
      blocks.push_back({std::move(made), {std::move(block)}, {load}});
    }
  }
  return blocks;
}

// Returns a signature that is equal for blocks which differ only in the load
// and in dimensions that may depend on the batch size.
std::string SignatureOfAnyLoad(Block block) {
  block.callers = 1;
  for (Shape& shape : block.inputs) {
    std::fill(shape.begin(), shape.end() - 1, 0);
  }
  return Signature(block);
}

// Adds another load to `blocks`. `partition` is the same graph partitioned for
// that load, and `first` is the graph partitioned for the first load.
absl::Status AddLoad(const Partition& first, const Partition& partition,
                     const std::set<int64_t>& left,
                     std::vector<LoadedBlock>* blocks) {
  std::vector<LoadedBlock> more = BlocksOf(partition, left);
  bool equal = more.size() == blocks->size();
  for (size_t b = 0; equal && b < more.size(); ++b) {
    const PartitionBlock& known = (*blocks)[b].made;
    const PartitionBlock& made = more[b].made;
    equal = made.operators.size() == known.operators.size();
    for (size_t i = 0; equal && i < known.operators.size(); ++i) {
      equal = partition.operators[made.operators[i]].output ==
              first.operators[known.operators[i]].output;
    }
    equal = equal &&
            SignatureOfAnyLoad(made.block) == SignatureOfAnyLoad(known.block);
  }
  if (!equal) {
    return absl::InvalidArgumentError(
        "the graph's operators differ between the requested batch sizes, so it "
        "cannot be scheduled for all of these sizes");
  }
  for (size_t b = 0; b < more.size(); ++b) {
    (*blocks)[b].blocks.push_back(std::move(more[b].blocks[0]));
    (*blocks)[b].loads.push_back(more[b].loads[0]);
  }
  return absl::OkStatus();
}

// Returns the sorted operators of each merge stage.
std::set<std::vector<int>> MergesOf(const Schedule& schedule) {
  std::set<std::vector<int>> merges;
  for (const Stage& stage : schedule.stages) {
    if (stage.strategy != Strategy::kMerge) continue;
    std::vector<int> group = stage.groups[0];
    std::sort(group.begin(), group.end());
    merges.insert(std::move(group));
  }
  return merges;
}

class Rewriter {
 public:
  Rewriter(const Partition& partition, const RewriteOptions& options,
           tensorflow::GraphDef* graph)
      : partition_(partition),
        options_(options),
        view_(partition.graph()),
        graph_(*graph),
        editor_(view_, graph) {}

  void Run(const std::vector<LoadedBlock>& blocks) {
    std::vector<Scheduled> scheduled;
    int missing = 0;
    std::string first_problem;
    for (const LoadedBlock& block : blocks) {
      StatusOr<Scheduled> found = Find(block);
      if (found.ok()) {
        scheduled.push_back(std::move(*found));
      } else if (missing++ == 0) {
        first_problem = found.status().message();
      }
    }
    if (missing > 0) {
      Warn(Reason::kMissingSchedule,
           absl::StrCat(missing,
                        " block(s) have no valid schedule and are left to "
                        "TensorFlow; the first: ",
                        first_problem));
    }
    for (size_t load = 0; !blocks.empty() && load < blocks[0].blocks.size();
         ++load) {
      int stage_number = 0;
      for (Scheduled& block : scheduled) {
        const Schedule& schedule = block.schedules[load];
        const Block computed =
            WithAlgorithms(block.loaded->made.block, schedule);
        for (const Stage& stage : schedule.stages) {
          Apply(computed, stage, {block.loaded->loads[load], stage_number++},
                &block);
        }
      }
    }
    for (const auto& [node, places] : places_) {
      Annotate(places, graph_.mutable_node(node));
    }
    WriteMerges(partition_, merges_, &editor_);
    editor_.Finish();
  }

 private:
  // A block with its schedule for each load.
  struct Scheduled {
    const LoadedBlock* loaded = nullptr;
    std::vector<Schedule> schedules;
    // Maps each group of operators that all schedules merge to its index in
    // merges_.
    std::map<std::vector<int>, int> merges;
  };

  StatusOr<Scheduled> Find(const LoadedBlock& block) {
    Scheduled result;
    result.loaded = &block;
    for (const Block& for_load : block.blocks) {
      StatusOr<Schedule> read = ReadSchedule(options_.schedules, for_load);
      if (!read.ok() && IsChain(for_load)) read = SequentialSchedule(for_load);
      if (!read.ok()) {
        return InvalidArgument(absl::StrCat("block ", Signature(for_load), ": ",
                                            read.status().message()));
      }
      result.schedules.push_back(std::move(*read));
    }
    if (!options_.materialise_merges) return result;
    for (const std::vector<int>& group : MergesOf(result.schedules[0])) {
      if (std::all_of(result.schedules.begin(), result.schedules.end(),
                      [&](const Schedule& schedule) {
                        return MergesOf(schedule).count(group) > 0;
                      })) {
        IOS_ASSIGN_OR_RETURN(MergePlan plan,
                             PlanMerge(block.made.block, group));
        result.merges[group] = merges_.size();
        merges_.push_back({std::move(plan), &block.made, {}});
      }
    }
    return result;
  }

  // Records the place of a stage's operators for one load. `computed` is
  // the block with the algorithms of this schedule.
  void Apply(const Block& computed, const Stage& stage, StagePlace place,
             Scheduled* block) {
    place.merge = stage.strategy == Strategy::kMerge;
    place.micro_batches = stage.micro_batches;
    if (place.merge) {
      std::vector<int> group = stage.groups[0];
      std::sort(group.begin(), group.end());
      const auto merge = block->merges.find(group);
      if (merge != block->merges.end()) {
        // WriteMerges() replaces the group by one convolution.
        place.merge = false;
        const StatusOr<MergePlan> plan = PlanMerge(computed, group);
        if (plan.ok()) place.algorithm = plan->merged.algorithm;
        AddPlace(place, &merges_[merge->second].places);
        return;
      }
    }
    const PartitionBlock& made = block->loaded->made;
    for (size_t group = 0; group < stage.groups.size(); ++group) {
      place.stream = group;
      for (int i : stage.groups[group]) {
        place.algorithm = computed.operators[i].algorithm;
        const ImportedOperator& op = partition_.operators[made.operators[i]];
        for (int n : op.nodes) {
          AddPlace(place, &places_[n]);
          AnnotatePrecision(op.dtype, partition_.dtype(op.output),
                            graph_.mutable_node(n));
        }
      }
    }
  }
  // Adds a place unless `places` already has one for its load. There are two
  // causes of duplicates. A node may belong to operators of several stages; the
  // place of the first stage is then kept. A region may also have the same
  // batch size for all batch sizes of the graph.
  static void AddPlace(const StagePlace& place,
                       std::vector<StagePlace>* places) {
    if (std::none_of(places->begin(), places->end(), [&](const StagePlace& p) {
          return p.load == place.load;
        })) {
      places->push_back(place);
    }
  }

  const Partition& partition_;
  const RewriteOptions& options_;
  const GraphView& view_;
  tensorflow::GraphDef& graph_;
  GraphEditor editor_;
  std::map<int, std::vector<StagePlace>> places_;  // by node
  std::vector<Merge> merges_;
};

}  // namespace

absl::Status Rewrite(const std::vector<const Partition*>& partitions,
                     const RewriteOptions& options,
                     tensorflow::GraphDef* graph) {
  const Partition& first = *partitions[0];
  if (first.regions.empty()) return absl::OkStatus();
  std::vector<LoadedBlock> blocks = BlocksOf(first, options.left);
  for (size_t i = 1; i < partitions.size(); ++i) {
    TF_RETURN_IF_ERROR(AddLoad(first, *partitions[i], options.left, &blocks));
  }
  Rewriter(first, options, graph).Run(blocks);
  return absl::OkStatus();
}

}  // namespace ios::tf

#include "cc/tensorflow/plugin/runtime.h"

#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/core/ir/problem.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/cache/schedule_cache.h"
#include "cc/tensorflow/ops/engine_device.h"
#include "cc/tensorflow/ops/region_watch.h"
#include "cc/tensorflow/ops/watched_region.h"
#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/plugin/lower.h"
#include "cc/tensorflow/plugin/search_queue.h"
#include "cc/tensorflow/status_util.h"
#include "cc/tensorflow/warn.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/platform/random.h"

namespace ios::tf {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

struct Process {
  std::mutex mutex;
  std::optional<RuntimeOptions> options;
  RuntimeCounts counts;
};

Process& TheProcess() {
  static auto* const process = new Process;
  return *process;
}

void Count(const std::function<void(RuntimeCounts*)>& change) {
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  change(&TheProcess().counts);
}

bool IsConvolution(const NodeDef& node) {
  return node.op() == "Conv2D" || node.op() == "DepthwiseConv2dNative" ||
         node.op() == "Conv2DBackpropInput";
}

std::string EngineDevice(const std::string& device) {
  return device == kGpu ? FirstGpu() : "cpu";
}

// Estimates, without measuring, whether TensorFlow may be faster than the
// engine. This is so for small blocks: TensorFlow computes a few
// multiplications in the calling thread, while entering a region takes about 20
// us. For depthwise convolutions and larger blocks, TensorFlow is slower
// (docs/guides/enable.md).
bool TooSmallToOffload(const Block& block) {
  constexpr size_t kFewOperators = 2;
  constexpr int64_t kFewFlops = 300'000;
  if (block.operators.size() > kFewOperators) return false;
  const StatusOr<std::vector<Shape>> shapes = InferShapes(block);
  if (!shapes.ok()) return false;
  int64_t flops = 0;
  for (size_t i = 0; i < shapes->size(); ++i) {
    const Operator& op = block.operators[i];
    if (op.type != OperatorType::kConv2D || op.groups > 1) return false;
    flops += Flops(op, InputShapes(block, *shapes, i), (*shapes)[i]);
  }
  return flops < kFewFlops;
}

// Returns true if a search may find a better schedule than the sequential
// schedule with direct algorithms. A search may run operators concurrently,
// split batches and choose algorithms.
bool HasChoices(const Block& block, const std::string& device) {
  if (!IsChain(block) || BatchSize(block) > 1) return true;
  if (device == kGpu) return false;
  const StatusOr<std::vector<Shape>> shapes = InferShapes(block);
  if (!shapes.ok()) return false;
  for (const std::vector<Algorithm>& of_one : AlgorithmsOf(block, *shapes)) {
    if (!of_one.empty()) return true;
  }
  return false;
}

class BlockScheduler {
 public:
  BlockScheduler(const Partition& partition, const RuntimeOptions& options)
      : partition_(partition), options_(options) {}

  // Joins the schedules of the region's blocks. If a block has no schedule, the
  // region waits for one, or the result is empty.
  RegionSchedules OfRegion(const Region& region, const Block& whole,
                           const std::string& device) {
    RegionWatch watch;
    bool is_searched = false;
    for (const std::vector<int>& operators : region.blocks) {
      // Looks up all blocks of a region, even if an earlier block has no
      // schedule, so that `ios_tf tune` gets all blocks without schedules.
      watch.blocks.push_back(
          OfBlock(MakeBlock(partition_, operators,
                            partition_.operators[operators[0]].op.name)
                      .block,
                  device));
      is_searched = is_searched || watch.blocks.back().is_searched;
    }
    RegionSchedules result;
    std::optional<Schedule> joined = JoinSchedules(watch.blocks);
    if (is_searched && CacheOf(device) && RefreshSeconds() > 0) {
      watch.key = absl::StrCat(absl::Hex(tensorflow::random::New64()),
                               absl::Hex(tensorflow::random::New64()));
      watch.cache_dir = options_.cache_dir;
      watch.engine_device = EngineDevice(device);
      watch.waits = !joined.has_value();
      // The engine needs some schedule for the IosRegion node, but does not run
      // the region while it waits.
      if (watch.waits) joined = SequentialSchedule(whole);
      result.watch = std::move(watch);
    }
    if (joined) result.schedules[LoadOf(whole)] = *std::move(joined);
    return result;
  }

 private:
  WatchedBlock OfBlock(Block block, const std::string& device) {
    WatchedBlock result;
    result.block = std::move(block);
    result.is_searched = HasChoices(result.block, device);
    if (!result.is_searched) {
      result.schedule = SequentialSchedule(result.block);
      return result;
    }
    const ScheduleCache* cache = CacheOf(device);
    if (!cache) return result;
    // The version comes first: if the file is replaced between the two calls,
    // it is read again later.
    result.version = cache->Version(result.block);
    result.schedule = cache->Find(result.block);
    result.is_cached = result.schedule.has_value();
    if (result.is_cached) {
      Count([](RuntimeCounts* counts) { ++counts->cached; });
      return result;
    }
    result.schedule = Missed(result.block, device, *cache);
    return result;
  }

  // Handles a block that is not in the cache, as the option `on_miss` says.
  // Returns its schedule, or nullopt if the block stays without one.
  std::optional<Schedule> Missed(const Block& block, const std::string& device,
                                 const ScheduleCache& cache) {
    std::optional<Schedule> schedule;
    if (options_.on_miss == OnMiss::kSearch) schedule = Search(block, device);
    if (schedule) {
      Count([](RuntimeCounts* counts) { ++counts->searched; });
      return schedule;
    }
    cache.AddPending(block);
    // The sequential schedule is the only one for a chain, unless a search
    // chooses algorithms.
    if (IsChain(block)) return SequentialSchedule(block);
    if (options_.on_miss == OnMiss::kGreedy) {
      Count([](RuntimeCounts* counts) { ++counts->greedy; });
      return GreedySchedule(block);
    }
    Count([](RuntimeCounts* counts) { ++counts->missed; });
    return std::nullopt;
  }

  std::optional<Schedule> Search(const Block& block,
                                 const std::string& device) {
    if (search_failed_) return std::nullopt;
    const StatusOr<std::string> request =
        SearchRequest(block, EngineDevice(device), options_.cache_dir);
    StatusOr<std::string> json = request.ok()
                                     ? SearchQueue::Global().Search(*request)
                                     : request.status();
    StatusOr<Schedule> schedule =
        json.ok() ? ParseSchedule(*json, block) : json.status();
    if (schedule.ok()) return std::move(*schedule);
    // Later blocks are not searched, because their searches would fail in the
    // same way.
    search_failed_ = true;
    Warn(Reason::kSearchFailed,
         absl::StrCat("the search for a schedule failed, and the graph's other "
                      "blocks that "
                      "are not in the cache are not searched: ",
                      schedule.status().message()));
    return std::nullopt;
  }

  // Returns the cache for a device, or null if the engine cannot use the
  // device.
  const ScheduleCache* CacheOf(const std::string& device) {
    const auto [known, is_new] = caches_.try_emplace(device);
    if (is_new) {
      absl::StatusOr<ScheduleCache> opened =
          ScheduleCache::Open(options_.cache_dir, EngineDevice(device));
      if (opened.ok()) {
        known->second = std::move(*opened);
      } else {
        Warn(Reason::kCacheNotOpened,
             absl::StrCat("the schedule cache is not used for ", device, ": ",
                          opened.status().message()));
      }
    }
    return known->second ? &*known->second : nullptr;
  }

  const Partition& partition_;
  const RuntimeOptions& options_;
  std::map<std::string, std::optional<ScheduleCache>> caches_;
  bool search_failed_ = false;
};

}  // namespace

absl::StatusOr<OnMiss> OnMissFromString(const std::string& text) {
  for (OnMiss on_miss : {OnMiss::kSkip, OnMiss::kGreedy, OnMiss::kSearch}) {
    if (text == ToString(on_miss)) return on_miss;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "on_miss must be \"skip\", \"greedy\" or \"search\", not '", text, "'"));
}

const char* ToString(OnMiss on_miss) {
  switch (on_miss) {
    case OnMiss::kSkip:
      return "skip";
    case OnMiss::kGreedy:
      return "greedy";
    case OnMiss::kSearch:
      return "search";
  }
  return "skip";
}

std::optional<RuntimeOptions> ProcessOptions() {
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  return TheProcess().options;
}

void SetProcessOptions(std::optional<RuntimeOptions> options) {
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  TheProcess().options = std::move(options);
}

RuntimeCounts Counts() {
  const RefreshCounts refreshed = RefreshedSchedules();
  std::lock_guard<std::mutex> lock(TheProcess().mutex);
  RuntimeCounts counts = TheProcess().counts;
  counts.picked_up = refreshed.picked_up;
  counts.missed -= refreshed.blocks_filled;
  return counts;
}

void CountAnnotated(int regions) {
  Count([regions](RuntimeCounts* counts) {
    ++counts->annotated;
    counts->regions += regions;
  });
}

bool IsFrozenNetwork(const GraphDef& graph) {
  std::vector<const NodeDef*> convolutions;
  for (const NodeDef& node : graph.node()) {
    if (IsConvolution(node) && node.input_size() > 1) {
      convolutions.push_back(&node);
    }
  }
  if (convolutions.empty()) return false;
  std::unordered_map<std::string, const NodeDef*> by_name;
  for (const NodeDef& node : graph.node()) by_name[node.name()] = &node;
  for (const NodeDef* convolution : convolutions) {
    const NodeDef* filter = convolution;
    int input = 1;
    do {
      const auto it = by_name.find(std::string(
          tensorflow::ParseTensorName(filter->input(input)).node()));
      filter = it == by_name.end() ? nullptr : it->second;
      input = 0;
    } while (filter && filter->op() == "Identity" && filter->input_size() > 0);
    if (filter && filter->op() == "Const") return true;
  }
  Count([](RuntimeCounts* counts) { ++counts->not_frozen; });
  return false;
}

absl::StatusOr<int> ScheduleAndLower(
    const tensorflow::grappler::GrapplerItem& item,
    const RuntimeOptions& options, PartitionOptions partition_options,
    GraphDef* graph) {
  partition_options.batch_size = options.batch_size;
  partition_options.callers = options.callers;
  partition_options.precision = options.precision;
  TF_ASSIGN_OR_RETURN(const Partition partition,
                      PartitionGraph(item, partition_options));
  BlockScheduler scheduler(partition, options);
  TF_ASSIGN_OR_RETURN(const int regions,
                      Lower(
                          partition,
                          [&](const Region& region, const Block& block,
                              const std::string& device) {
                            return TooSmallToOffload(block)
                                       ? RegionSchedules()
                                       : scheduler.OfRegion(region, block,
                                                            device);
                          },
                          graph));
  Count([regions](RuntimeCounts* counts) {
    ++(regions > 0 ? counts->scheduled : counts->passed);
    counts->regions += regions;
  });
  return regions;
}

}  // namespace ios::tf

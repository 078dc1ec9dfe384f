#include "cc/tensorflow/plugin/ios_optimizer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/plugin/annotated_schedules.h"
#include "cc/tensorflow/plugin/lower.h"
#include "cc/tensorflow/plugin/runtime.h"
#include "cc/tensorflow/status_util.h"
#include "cc/tensorflow/warn.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/arithmetic_optimizer.h"
#include "tensorflow/core/grappler/optimizers/common_subgraph_elimination.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/grappler/optimizers/generic_layout_optimizer.h"
#include "tensorflow/core/grappler/optimizers/remapper.h"

namespace ios::tf {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::RewriterConfig;
using ::tensorflow::grappler::Cluster;
using ::tensorflow::grappler::GrapplerItem;

absl::StatusOr<int64_t> ReadNumber(const std::string& key,
                                   const tensorflow::AttrValue& value) {
  if (value.has_list()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "IosOptimizer: ", key, " must be a single number, not a list"));
  }
  if (value.i() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "IosOptimizer: ", key, " is ", value.i(), ", but it must be positive"));
  }
  return value.i() == 0 ? 1 : value.i();
}

// Returns the device where TensorFlow places nodes that name no device.
std::string DefaultDevice(Cluster* cluster) {
  if (!cluster) return kCpu;
  const auto devices = cluster->GetDevices();
  return std::any_of(
             devices.begin(), devices.end(),
             [](const auto& device) { return device.second.type() == "GPU"; })
             ? kGpu
             : kCpu;
}

absl::Status LowerAnnotated(const GrapplerItem& item,
                            const PartitionOptions& options, GraphDef* graph) {
  TF_ASSIGN_OR_RETURN(const Partition partition, PartitionGraph(item, options));
  TF_ASSIGN_OR_RETURN(const int regions,
                      Lower(partition, AnnotatedSchedules(partition), graph));
  CountAnnotated(regions);
  return absl::OkStatus();
}

// Lowers the graph if possible, and otherwise leaves it unchanged, because
// loading a model must not fail because of this optimizer. `runtime` has the
// options for graphs without annotations; if it is nullopt, these graphs stay
// unchanged.
void LowerIfPossible(const GrapplerItem& item, const PartitionOptions& options,
                     const std::optional<RuntimeOptions>& runtime,
                     GraphDef* graph) {
  if (!item.optimization_options().allow_non_differentiable_rewrites) return;
  const absl::Status status = CatchExceptionsAbsl([&]() -> absl::Status {
    if (IsAnnotated(item.graph)) return LowerAnnotated(item, options, graph);
    if (!runtime || !IsFrozenNetwork(item.graph)) return absl::OkStatus();
    return ScheduleAndLower(item, *runtime, options, graph).status();
  });
  if (!status.ok()) {
    *graph = item.graph;
    Warn(Reason::kGraphNotLowered,
         absl::StrCat("graph '", item.id,
                      "' runs as plain TensorFlow: ", status.message()));
  }
}

}  // namespace

absl::Status IosOptimizer::ReadParameter(const std::string& key,
                                         const tensorflow::AttrValue& value) {
  if (key == "mode") {
    if (value.s() == "optimize") {
      mode_ = Mode::kOptimize;
    } else if (value.s() != "lower") {
      return absl::InvalidArgumentError(
          absl::StrCat("IosOptimizer: mode '", value.s(),
                       "' is neither \"lower\" nor \"optimize\""));
    }
  } else if (key == "batch_size") {
    TF_ASSIGN_OR_RETURN(options_.batch_size, ReadNumber(key, value));
    runtime_.batch_size = options_.batch_size;
  } else if (key == "callers") {
    TF_ASSIGN_OR_RETURN(runtime_.callers, ReadNumber(key, value));
  } else if (key == "device") {
    device_ = value.s();
    if (device_ != kCpu && device_ != kGpu) {
      return absl::InvalidArgumentError(
          absl::StrCat("IosOptimizer: device '", device_,
                       "' is neither \"cpu\" nor \"gpu\""));
    }
    options_.placement = {device_, device_};
  } else if (key == "cache_dir") {
    runtime_.cache_dir = value.s();
  } else if (key == "precision") {
    TF_ASSIGN_OR_RETURN(runtime_.precision, PrecisionFromString(value.s()));
  } else if (key == "on_miss") {
    TF_ASSIGN_OR_RETURN(runtime_.on_miss, OnMissFromString(value.s()));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("IosOptimizer has no parameter '", key, "'"));
  }
  return absl::OkStatus();
}

absl::Status IosOptimizer::Init(
    const tensorflow::RewriterConfig_CustomGraphOptimizer* config) {
  if (!config) return absl::OkStatus();
  for (const auto& [key, value] : config->parameter_map()) {
    TF_RETURN_IF_ERROR(ReadParameter(key, value));
  }
  if (mode_ == Mode::kOptimize && runtime_.cache_dir.empty()) {
    return absl::InvalidArgumentError(
        "IosOptimizer: mode \"optimize\" needs \"cache_dir\", a directory");
  }
  return absl::OkStatus();
}

absl::Status IosOptimizer::Optimize(Cluster* cluster, const GrapplerItem& item,
                                    GraphDef* optimized_graph) {
  *optimized_graph = item.graph;
  PartitionOptions options = options_;
  if (device_.empty()) options.placement.unplaced = DefaultDevice(cluster);
  // TensorFlow calls each optimizer twice. Schedules are looked up only in the
  // first call, because the second call would find the same schedules.
  const bool schedules =
      mode_ == Mode::kOptimize && !std::exchange(seen_, true);
  LowerIfPossible(item, options,
                  schedules ? std::make_optional(runtime_) : std::nullopt,
                  optimized_graph);
  return absl::OkStatus();
}

absl::Status IosPlugin::Optimize(Cluster* cluster, const GrapplerItem& item,
                                 GraphDef* optimized_graph) {
  if (leaves_gpu_graphs_ &&
      std::any_of(item.graph.node().begin(), item.graph.node().end(),
                  [](const tensorflow::NodeDef& node) {
                    return DevicePlacement().DeviceOf(node) == kGpu;
                  })) {
    *optimized_graph = item.graph;
    return absl::OkStatus();
  }
  PartitionOptions options;
  options.placement.unplaced = DefaultDevice(cluster);
  GraphDef lowered = item.graph;
  // TensorFlow creates one plugin for each graph, and calls it twice. Schedules
  // are looked up only in the first call: a region without a schedule then has
  // none later, and the passes below change the graph.
  LowerIfPossible(item, options,
                  std::exchange(seen_, true) ? std::nullopt : ProcessOptions(),
                  &lowered);
  GrapplerItem rest = item.WithGraph(std::move(lowered));
  std::vector<std::unique_ptr<tensorflow::grappler::GraphOptimizer>> passes;
  passes.push_back(std::make_unique<tensorflow::grappler::ArithmeticOptimizer>(
      RewriterConfig::ON));
  passes.push_back(
      std::make_unique<tensorflow::grappler::GenericLayoutOptimizer>());
  passes.push_back(
      std::make_unique<tensorflow::grappler::Remapper>(RewriterConfig::ON));
  // Removes duplicate nodes that the passes above leave. TensorFlow does not
  // remove them, because it looks for duplicates before it calls the plugin.
  passes.push_back(
      std::make_unique<tensorflow::grappler::CommonSubgraphElimination>(
          RewriterConfig::ON));
  for (const auto& pass : passes) {
    GraphDef output;
    // The result of a pass that fails is ignored, as in TensorFlow itself.
    if (pass->Optimize(cluster, rest, &output).ok()) {
      rest.graph = std::move(output);
    }
  }
  *optimized_graph = std::move(rest.graph);
  return absl::OkStatus();
}

REGISTER_GRAPH_OPTIMIZER_AS(IosOptimizer, kOptimizer);

namespace {

// Registers the plugin for a type of device, and returns true on success. If
// another plugin already serves this type, returns false, because a second
// registration would end the process. Users can then still name the optimizer
// in the session's configuration.
bool RegisterPlugin(const char* device, bool leaves_gpu_graphs) {
  using ::tensorflow::grappler::ConfigList;
  using Registry = ::tensorflow::grappler::PluginGraphOptimizerRegistry;
  if (!Registry::CreateOptimizers({device}).empty()) {
    Warn(Reason::kOtherPlugin,
         absl::StrCat("another graph optimizer plugin is registered for ",
                      device,
                      "; add \"IosOptimizer\" to custom_optimizers to use "
                      "IOS-TF"));
    return false;
  }
  ConfigList config(/*disable_model_pruning=*/false,
                    {{kRemappingPass, RewriterConfig::OFF},
                     {kLayoutPass, RewriterConfig::OFF},
                     {kArithmeticPass, RewriterConfig::OFF}});
  Registry::RegisterPluginOptimizerOrDie(
      [leaves_gpu_graphs] { return new IosPlugin(leaves_gpu_graphs); }, device,
      config);
  return true;
}

const bool kGpuPluginRegistered =
    RegisterPlugin("GPU", /*leaves_gpu_graphs=*/false);
const bool kCpuPluginRegistered =
    RegisterPlugin("CPU", /*leaves_gpu_graphs=*/kGpuPluginRegistered);

}  // namespace
}  // namespace ios::tf

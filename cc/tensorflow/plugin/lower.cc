#include "cc/tensorflow/plugin/lower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/core/ir/schedule.h"
#include "cc/engine/devices.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/graph_editor.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/ops/engine_device.h"
#include "cc/tensorflow/ops/program_json.h"
#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/shapes/layout_map.h"
#include "cc/tensorflow/status_util.h"
#include "cc/tensorflow/warn.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

struct LoweredRegion {
  PartitionBlock made;
  Schedules schedules;
  std::string name;
  std::vector<int> nodes;
  std::string device;       // kCpu or kGpu
  std::string node_device;  // as in NodeDef
};

// Converts layouts at the borders of the regions: tensors that enter or leave a
// region are [N,H,W,C], but the rest of the graph may use other layouts.
class Borders {
 public:
  Borders(const Partition& partition, GraphEditor* editor)
      : graph_(partition.graph()),
        shapes_(partition.shapes()),
        layouts_(partition.layouts()),
        editor_(*editor) {}

  // Makes readers of `tensor` read `output` ("name" or "name:port"), the output
  // of a region that replaces it.
  void Leave(TensorRef tensor, const std::string& output,
             const LoweredRegion& region) {
    outputs_[tensor] = output;
    const Layout layout = layouts_.layout(tensor);
    if (layout == Layout::kChannelsLast) {
      editor_.Replace(tensor, output);
      return;
    }
    editor_.Replace(
        tensor, editor_.InLayout(
                    editor_.UniqueName(absl::StrCat(region.name, "/output")),
                    output, Layout::kChannelsLast, layout,
                    shapes_.dtype(tensor), region.node_device));
    for (int i : graph_.Consumers(tensor)) {
      if (graph_.node(i).op() == "Transpose" &&
          !layouts_.channels_first({i, 0}) &&
          PermutationOf(&graph_, i) == Permutation::kToChannelsLast) {
        editor_.Replace({i, 0}, output);
      }
    }
  }

  // Returns the input through which a region reads `tensor`. Call it after all
  // calls of Leave().
  std::string Enter(TensorRef tensor, const LoweredRegion& region) {
    const auto output = outputs_.find(tensor);
    if (output != outputs_.end()) return output->second;
    std::string input = editor_.Input(tensor);
    const Layout layout = layouts_.layout(tensor);
    if (layout == Layout::kChannelsLast) return input;
    std::string& changed = inputs_[{tensor, region.node_device}];
    if (changed.empty()) {
      changed = editor_.InLayout(
          editor_.UniqueName(absl::StrCat(region.name, "/input")), input,
          layout, Layout::kChannelsLast, shapes_.dtype(tensor),
          region.node_device);
    }
    return changed;
  }

 private:
  GraphView& graph_;
  const ShapeTable& shapes_;
  const LayoutMap& layouts_;
  GraphEditor& editor_;
  std::map<TensorRef, std::string> outputs_;
  std::map<std::pair<TensorRef, std::string>, std::string> inputs_;
};

void AddRegionNode(const Partition& partition, const LoweredRegion& region,
                   Borders* borders, GraphEditor* editor) {
  NodeDef* node = editor->AddNode(region.name, kRegion, region.node_device);
  for (const TensorRef& input : region.made.inputs) {
    node->add_input(borders->Enter(input, region));
  }
  tensorflow::AddNodeAttr("N", static_cast<int64_t>(region.made.inputs.size()),
                          node);
  tensorflow::AddNodeAttr(
      "M", static_cast<int64_t>(region.made.block.outputs.size()), node);
  tensorflow::AddNodeAttr("T", ToTensorFlow(region.made.block.dtype), node);
  tensorflow::AddNodeAttr("device", region.device, node);
  RegionProgram program = {region.made.block, region.schedules, {}};
  tensorflow::AttrValue weights;
  weights.mutable_list();
  for (int k : region.made.operators) {
    for (const Weight& weight : partition.operators[k].weights) {
      if (!weight.constant()) {
        node->add_input(editor->Input(weight.variable));
        program.parameters.push_back(
            {weights.list().tensor_size(), weight.recipe.swaps});
      }
      const std::vector<float>& values =
          weight.constant() ? weight.values : weight.recipe.scale;
      tensorflow::TensorProto* proto = weights.mutable_list()->add_tensor();
      proto->set_dtype(tensorflow::DT_FLOAT);
      proto->mutable_tensor_shape()->add_dim()->set_size(values.size());
      proto->set_tensor_content(values.data(), values.size() * sizeof(float));
    }
  }
  (*node->mutable_attr())["weights"] = std::move(weights);
  tensorflow::AddNodeAttr("P", static_cast<int64_t>(program.parameters.size()),
                          node);
  tensorflow::AddNodeAttr("program", ToJson(program), node);
  for (const std::string& wait : editor->ControlInputs(region.nodes)) {
    if (wait != absl::StrCat("^", region.name)) node->add_input(wait);
  }
}

std::string DeviceOf(const Partition& partition, const Region& region) {
  const ImportedOperator& first = partition.operators[region.operators[0]];
  return partition.placement.DeviceOf(
      partition.graph().node(first.output.node));
}

// Returns true if the engine can run regions on this device. Otherwise, the
// nodes stay in TensorFlow.
bool IsUsable(const std::string& device, const DevicePlacement& placement) {
  if (device == kCpu || placement.only == device) return true;
  const StatusOr<std::string> found = DeviceFingerprint(FirstGpu());
  if (found.ok()) return true;
  Warn(Reason::kUnusableGpu,
       absl::StrCat("nodes on a GPU run as plain TensorFlow: ",
                    found.status().message()));
  return false;
}

// Returns a region with valid schedules, or nullopt if the region is left to
// TensorFlow.
std::optional<LoweredRegion> ScheduleRegion(const Partition& partition,
                                            const Region& region,
                                            const std::string& device,
                                            const RegionScheduler& scheduler) {
  LoweredRegion result;
  result.device = device;
  result.node_device =
      partition.graph()
          .node(partition.operators[region.operators[0]].output.node)
          .device();
  result.made = MakeBlock(partition, region.operators, "");
  const Block& block = result.made.block;
  if (block.outputs.empty() || result.made.inputs.empty()) return std::nullopt;
  // A block is not usable if it has too many operators, for example.
  const Status usable_block = Validate(block);
  if (!usable_block.ok()) {
    Warn(Reason::kInvalidRegion,
         absl::StrCat("a region is left to TensorFlow: ",
                      usable_block.message()));
    return std::nullopt;
  }
  result.schedules = scheduler(region, block, device);
  if (result.schedules.empty()) return std::nullopt;
  for (auto& [load, schedule] : result.schedules) {
    const Status status = Validate(schedule, block);
    if (status.ok()) continue;
    Warn(Reason::kInvalidSchedule,
         absl::StrCat("the schedule of the region at '",
                      block.operators[0].name, "' for batch size ", load.batch,
                      " and callers ", load.callers,
                      " is not valid, so the region runs sequentially: ",
                      status.message()));
    schedule = SequentialSchedule(block);
  }
  return result;
}

}  // namespace

absl::StatusOr<int> Lower(const Partition& partition,
                          const RegionScheduler& scheduler,
                          tensorflow::GraphDef* graph) {
  GraphEditor editor(partition.graph(), graph);
  Borders borders(partition, &editor);
  std::vector<LoweredRegion> lowered;
  std::map<std::string, bool> usable;  // by device
  for (const Region& region : partition.regions) {
    const std::string device = DeviceOf(partition, region);
    const auto [known, is_new] = usable.try_emplace(device, false);
    if (is_new) known->second = IsUsable(device, partition.placement);
    if (!known->second) continue;
    std::optional<LoweredRegion> scheduled =
        ScheduleRegion(partition, region, device, scheduler);
    if (!scheduled) continue;
    LoweredRegion& result = *scheduled;
    result.name =
        editor.UniqueName(absl::StrCat("ios_region_", lowered.size()));
    const std::vector<int>& outputs = result.made.block.outputs;
    for (size_t port = 0; port < outputs.size(); ++port) {
      borders.Leave(
          partition.operators[result.made.operators[outputs[port]]].output,
          port == 0 ? result.name : absl::StrCat(result.name, ":", port),
          result);
    }
    for (int k : region.operators) {
      for (int i : partition.operators[k].nodes) {
        editor.ReplaceControl(i, result.name);
        result.nodes.push_back(i);
      }
    }
    lowered.push_back(*std::move(scheduled));
  }
  for (const LoweredRegion& region : lowered) {
    AddRegionNode(partition, region, &borders, &editor);
  }
  if (!lowered.empty()) editor.Finish();
  return static_cast<int>(lowered.size());
}

}  // namespace ios::tf

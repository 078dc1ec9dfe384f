#include "cc/tensorflow/plugin/lower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
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
  std::optional<RegionWatch> watch;
  std::string name;
  std::vector<int> nodes;
  std::string device;       // kCpu or kGpu
  std::string node_device;  // as in NodeDef
  bool waits() const { return watch && watch->waits; }
  // The type of the tensors that enter and leave the region.
  tensorflow::DataType border_type() const {
    return ToTensorFlow(OutputDtype(made.block, 0));
  }
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

// Adds the IosRegion node of a region, which reads `inputs`.
NodeDef* AddRegionNode(const Partition& partition, const LoweredRegion& region,
                       const std::vector<std::string>& inputs,
                       GraphEditor* editor) {
  NodeDef* node = editor->AddNode(region.name, kRegion, region.node_device);
  for (const std::string& input : inputs) node->add_input(input);
  tensorflow::AddNodeAttr("N", static_cast<int64_t>(region.made.inputs.size()),
                          node);
  tensorflow::AddNodeAttr(
      "M", static_cast<int64_t>(region.made.block.outputs.size()), node);
  tensorflow::AddNodeAttr("T", region.border_type(), node);
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
  if (region.watch) {
    tensorflow::AddNodeAttr("watch", ToJson(*region.watch), node);
  }
  return node;
}

// Adds the control inputs that all nodes of a region need together. `name` is
// the node that stands for the region as a control input of other nodes.
void AddControlInputs(const LoweredRegion& region, const std::string& name,
                      const GraphEditor& editor, NodeDef* node) {
  for (const std::string& wait : editor.ControlInputs(region.nodes)) {
    if (wait != absl::StrCat("^", name)) node->add_input(wait);
  }
}

// Builds the nodes of a region that waits for schedules:
//
//   inputs --> IosRegionReady
//     |             | (is the region ready?)
//     +--------> Switch -- no --> copies of the region's nodes --> Merge -->
//                   +----- yes -> IosRegion ---------------------^
//
// The region's own nodes are copied, because other nodes may read them, too.
class WaitingRegion {
 public:
  // Call the constructor before GraphEditor::Replace() is called for other
  // regions, and Build() afterwards.
  WaitingRegion(const Partition& partition, const LoweredRegion& region,
                GraphEditor* editor)
      : partition_(partition),
        graph_(partition.graph()),
        region_(region),
        own_(region.nodes.begin(), region.nodes.end()),
        editor_(*editor) {
    for (size_t port = 0; port < region.made.block.outputs.size(); ++port) {
      merges_.push_back(
          editor_.UniqueName(absl::StrCat(region.name, "/merge_", port)));
      editor_.Replace(Output(port), merges_.back());
    }
    for (int i : region.nodes) editor_.ReplaceControl(i, merges_[0]);
  }

  void Build() {
    const std::string ready = AddReady();
    std::vector<std::string> inputs;
    for (const TensorRef& input : region_.made.inputs) {
      NodeDef* node = Add("switch", "Switch");
      node->add_input(editor_.Input(input));
      node->add_input(ready);
      AddType(node);
      switches_[input] = node->name();
      inputs.push_back(editor_.InLayout(
          editor_.UniqueName(absl::StrCat(region_.name, "/input")),
          absl::StrCat(node->name(), ":1"), partition_.layouts().layout(input),
          Layout::kChannelsLast, partition_.shapes().dtype(input),
          region_.node_device));
    }
    AddRegionNode(partition_, region_, inputs, &editor_);
    for (size_t port = 0; port < merges_.size(); ++port) {
      const TensorRef output = Output(port);
      const std::string copied = Copy(output);
      const std::string computed = editor_.InLayout(
          editor_.UniqueName(absl::StrCat(region_.name, "/output")),
          port == 0 ? region_.name : absl::StrCat(region_.name, ":", port),
          Layout::kChannelsLast, partition_.layouts().layout(output),
          partition_.shapes().dtype(output), region_.node_device);
      NodeDef* node =
          editor_.AddNode(merges_[port], "Merge", region_.node_device);
      node->add_input(copied);
      node->add_input(computed);
      tensorflow::AddNodeAttr("N", 2, node);
      AddType(node);
    }
  }

 private:
  TensorRef Output(size_t port) const {
    const int op = region_.made.operators[region_.made.block.outputs[port]];
    return partition_.operators[op].output;
  }

  NodeDef* Add(const std::string& name, const std::string& op) {
    return editor_.AddNode(
        editor_.UniqueName(absl::StrCat(region_.name, "/", name)), op,
        region_.node_device);
  }

  void AddType(NodeDef* node) const {
    tensorflow::AddNodeAttr("T", region_.border_type(), node);
  }

  std::string AddReady() {
    NodeDef* node = Add("ready", kRegionReady);
    for (const TensorRef& input : region_.made.inputs) {
      node->add_input(editor_.Input(input));
    }
    tensorflow::AddNodeAttr(
        "N", static_cast<int64_t>(region_.made.inputs.size()), node);
    tensorflow::AddNodeAttr("key", region_.watch->key, node);
    AddType(node);
    AddControlInputs(region_, merges_[0], editor_, node);
    return node->name();
  }

  // Returns the text for NodeDef::input that reads a copy of `tensor`, if it is
  // inside of the region. Copies the nodes that compute it, where necessary.
  std::string Copy(TensorRef tensor) {
    const auto outside = switches_.find(tensor);
    if (outside != switches_.end()) return outside->second;
    if (own_.count(tensor.node) == 0) return editor_.Input(tensor);
    std::string& name = copies_[tensor.node];
    if (name.empty()) {
      const NodeDef& original = graph_.node(tensor.node);
      name = editor_.UniqueName(
          absl::StrCat(region_.name, "/tensorflow/", original.name()));
      NodeDef copy = original;
      copy.set_name(name);
      copy.clear_input();
      // `_class` names nodes that must be on the same device. Lowering may
      // remove those nodes.
      copy.mutable_attr()->erase("_class");
      for (const TensorRef& input : graph_.inputs(tensor.node)) {
        copy.add_input(Copy(graph_.Resolve(input)));
      }
      *editor_.AddNode(name, copy.op(), copy.device()) = copy;
    }
    return tensor.port == 0 ? name : absl::StrCat(name, ":", tensor.port);
  }

  const Partition& partition_;
  GraphView& graph_;
  const LoweredRegion& region_;
  const std::set<int> own_;
  GraphEditor& editor_;
  std::vector<std::string> merges_;  // by output
  std::map<TensorRef, std::string> switches_;
  std::map<int, std::string> copies_;  // by the copied node
};

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

// Returns whether the region may get other schedules while the process runs. A
// region with weights from variables may not, because such weights are packed
// in a caller's thread. If a region waits for schedules, its outputs come from
// TensorFlow or from the engine, so their shapes must be the same in both.
bool CanBeWatched(const Partition& partition, const LoweredRegion& region) {
  for (int k : region.made.operators) {
    for (const Weight& weight : partition.operators[k].weights) {
      if (!weight.constant()) return false;
    }
  }
  const std::vector<int>& outputs = region.made.block.outputs;
  return !region.waits() ||
         std::none_of(outputs.begin(), outputs.end(), [&](int i) {
           return partition.operators[region.made.operators[i]].reshaped;
         });
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
  RegionSchedules scheduled = scheduler(region, block, device);
  result.schedules = std::move(scheduled.schedules);
  result.watch = std::move(scheduled.watch);
  if (result.schedules.empty()) return std::nullopt;
  if (!CanBeWatched(partition, result)) {
    if (result.waits()) return std::nullopt;
    result.watch.reset();
  }
  for (auto& [load, schedule] : result.schedules) {
    const Status status = Validate(schedule, block);
    if (status.ok()) continue;
    Warn(Reason::kInvalidSchedule,
         absl::StrCat("the schedule of the region at '",
                      block.operators[0].name, "' for batch size ", load.batch,
                      " (callers: ", load.callers,
                      ") is not valid, so the region runs sequentially: ",
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
    scheduled->name =
        editor.UniqueName(absl::StrCat("ios_region_", lowered.size()));
    for (int k : region.operators) {
      const std::vector<int>& nodes = partition.operators[k].nodes;
      scheduled->nodes.insert(scheduled->nodes.end(), nodes.begin(),
                              nodes.end());
    }
    lowered.push_back(*std::move(scheduled));
  }
  std::map<const LoweredRegion*, WaitingRegion> waiting;
  for (const LoweredRegion& region : lowered) {
    if (region.waits()) {
      waiting.try_emplace(&region, partition, region, &editor);
      continue;
    }
    const std::vector<int>& outputs = region.made.block.outputs;
    for (size_t port = 0; port < outputs.size(); ++port) {
      borders.Leave(
          partition.operators[region.made.operators[outputs[port]]].output,
          port == 0 ? region.name : absl::StrCat(region.name, ":", port),
          region);
    }
    for (int i : region.nodes) editor.ReplaceControl(i, region.name);
  }
  for (const LoweredRegion& region : lowered) {
    const auto waits = waiting.find(&region);
    if (waits != waiting.end()) {
      waits->second.Build();
      continue;
    }
    std::vector<std::string> inputs;
    for (const TensorRef& input : region.made.inputs) {
      inputs.push_back(borders.Enter(input, region));
    }
    NodeDef* node = AddRegionNode(partition, region, inputs, &editor);
    AddControlInputs(region, region.name, editor, node);
  }
  if (!lowered.empty()) editor.Finish();
  return static_cast<int>(lowered.size() - waiting.size());
}

}  // namespace ios::tf

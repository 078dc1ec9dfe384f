// Collects, rewrites and lowers any graph that TensorFlow accepts. TensorFlow
// must also accept the resulting graphs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/convert/collect.h"
#include "cc/tensorflow/convert/rewrite.h"
#include "cc/tensorflow/graph/inline_calls.h"
#include "cc/tensorflow/ops/program_json.h"
#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/partition/regions.h"
#include "cc/tensorflow/plugin/annotated_schedules.h"
#include "cc/tensorflow/plugin/lower.h"
#include "google/protobuf/text_format.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tests/fuzz/check.h"

namespace {

using ::google::protobuf::TextFormat;
using ::ios::tf::Partition;
using ::ios::tf::PartitionOptions;
using ::tensorflow::AttrValue;
using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

constexpr int kMaxNodes = 64;

// Returns an error if TensorFlow does not load the graph. This library need not
// read such graphs.
absl::Status Accept(const GraphDef& graph_def) {
  tensorflow::Graph graph(tensorflow::OpRegistry::Global());
  return tensorflow::ImportGraphDef({}, graph_def, &graph, nullptr);
}

// Checks that the nodes and edges of `made`, the result for the accepted graph
// `of`, form a valid graph. Shapes are not checked: if sizes of the original
// graph contradict each other, the graph fails when it runs. A region may only
// report this earlier than TensorFlow does.
void CheckAccepted(const GraphDef& made, const GraphDef& of) {
  tensorflow::Graph graph(tensorflow::OpRegistry::Global());
  const absl::Status status =
      tensorflow::ConvertGraphDefToGraph({}, made, &graph);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n%s\n", status.ToString().c_str(),
                 of.DebugString().c_str());
  }
  FUZZ_CHECK(status.ok());
}

// Returns whether TensorFlow can read the graph without gigabytes of memory and
// without ending the process. A constant that stores one number may declare any
// shape, and a list any length. TensorFlow ends the process for a constant
// whose type differs from the type of its output, and for a Reshape to more
// dimensions than a tensor may have.
bool TensorFlowReads(const GraphDef& graph) {
  constexpr double kMaxElements = 1 << 24;
  constexpr int64_t kMaxLength = 1 << 16;
  constexpr double kMaxDimensions = 254;
  for (const NodeDef& node : graph.node()) {
    const tensorflow::OpDef* op = nullptr;
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok()) {
      return false;
    }
    if (node.op() == "Const" && node.attr().count("value") &&
        node.attr().count("dtype") &&
        node.attr().at("value").tensor().dtype() !=
            node.attr().at("dtype").type()) {
      return false;
    }
    std::set<std::string> lengths;
    for (const auto& arg : op->input_arg()) lengths.insert(arg.number_attr());
    for (const auto& arg : op->output_arg()) lengths.insert(arg.number_attr());
    for (const auto& [name, value] : node.attr()) {
      double elements = 1;
      for (const auto& dim : value.tensor().tensor_shape().dim()) {
        elements *= static_cast<double>(dim.size());
      }
      const bool may_be_shape =
          value.tensor().dtype() == tensorflow::DT_INT32 ||
          value.tensor().dtype() == tensorflow::DT_INT64;
      if (elements > (may_be_shape ? kMaxDimensions : kMaxElements) ||
          (lengths.count(name) && value.i() > kMaxLength)) {
        return false;
      }
    }
  }
  return true;
}

// Returns the graph as an item whose inputs are all placeholders, and whose
// outputs are the nodes that no other node reads.
tensorflow::grappler::GrapplerItem Item(const GraphDef& graph) {
  tensorflow::grappler::GrapplerItem item;
  item.graph = graph;
  std::set<std::string> read;
  for (const NodeDef& node : graph.node()) {
    for (const std::string& input : node.input()) {
      read.insert(input.substr(input[0] == '^', input.find(':')));
    }
  }
  for (const NodeDef& node : graph.node()) {
    if (node.op() == "Placeholder") {
      item.feed.emplace_back(node.name(), tensorflow::Tensor());
    }
    if (read.count(node.name()) == 0) item.fetch.push_back(node.name());
  }
  return item;
}

// Returns a schedule with all operators in one stage if that is legal, and the
// sequential schedule otherwise.
ios::Schedule ScheduleOf(const ios::Block& block) {
  ios::Schedule schedule;
  schedule.stages.emplace_back();
  for (int i = 0; i < static_cast<int>(block.operators.size()); ++i) {
    schedule.stages[0].groups.push_back({i});
  }
  return ios::Validate(schedule, block).ok() ? schedule
                                             : ios::SequentialSchedule(block);
}

// Lowers and checks all regions, or, if `annotated`, only the regions whose
// nodes have schedules as attributes.
void CheckLowered(const tensorflow::grappler::GrapplerItem& item,
                  bool annotated) {
  const auto partition = PartitionGraph(item, PartitionOptions());
  if (!partition.ok()) return;
  GraphDef lowered = item.graph;
  const auto every = [](const ios::tf::Region&, const ios::Block& block,
                        const std::string&) {
    return ios::tf::RegionSchedules{{{ios::LoadOf(block), ScheduleOf(block)}},
                                    std::nullopt};
  };
  const auto regions =
      annotated ? Lower(*partition, AnnotatedSchedules(*partition), &lowered)
                : Lower(*partition, every, &lowered);
  if (!regions.ok()) return;
  CheckAccepted(lowered, item.graph);
  for (const NodeDef& node : lowered.node()) {
    if (node.op() != "IosRegion") continue;
    FUZZ_CHECK(
        ios::tf::RegionProgramFromJson(node.attr().at("program").s()).ok());
  }
}

void CheckRewritten(const Partition& partition, const GraphDef& graph,
                    const ios::tf::RewriteOptions& options) {
  GraphDef rewritten = graph;
  if (!Rewrite({&partition}, options, &rewritten).ok()) return;
  CheckAccepted(rewritten, graph);
  CheckLowered(Item(rewritten), /*annotated=*/true);
}

// The operations that mutations may insert, in addition to those in the corpus.
const char* const kOps[] = {"Add",
                            "AddV2",
                            "AvgPool",
                            "BatchMatMulV2",
                            "BiasAdd",
                            "Conv2D",
                            "ConcatV2",
                            "DepthToSpace",
                            "DepthwiseConv2dNative",
                            "Einsum",
                            "Elu",
                            "Exp",
                            "ExpandDims",
                            "FusedBatchNormV3",
                            "Identity",
                            "LRN",
                            "LeakyRelu",
                            "MatMul",
                            "Max",
                            "MaxPool",
                            "Maximum",
                            "Mean",
                            "MirrorPad",
                            "Mul",
                            "Neg",
                            "Pack",
                            "Pad",
                            "PadV2",
                            "RealDiv",
                            "Relu",
                            "Relu6",
                            "Reshape",
                            "ResizeBilinear",
                            "Rsqrt",
                            "Shape",
                            "Sigmoid",
                            "Slice",
                            "Softmax",
                            "Split",
                            "Square",
                            "Squeeze",
                            "StridedSlice",
                            "Sub",
                            "Sum",
                            "Tanh",
                            "Tile",
                            "Transpose",
                            "ZerosLike",
                            "_Retval",
                            "IosRegion",
                            "NoSuchOperation"};
const char* const kAttributes[] = {
    "T",           "padding",     "strides",       "dilations",
    "data_format", "ksize",       "keep_dims",     "shape",
    "_ios_batch",  "_ios_stage",  "_ios_stream",   "_ios_merge",
    "_ios_shape",  "begin_mask",  "new_axis_mask", "shrink_axis_mask",
    "block_size",  "epsilon",     "alpha",         "explicit_paddings",
    "_class",      "is_training", "program",       "_output_shapes",
    "equation",    "adj_x",       "adj_y",         "transpose_b"};
const char* const kWords[] = {"SAME",
                              "VALID",
                              "EXPLICIT",
                              "NHWC",
                              "NCHW",
                              "NCHW_VECT_C",
                              "",
                              "x",
                              "bhwc,cd->bhwd",
                              "bc,dc->bd",
                              "...c,cd->...d",
                              "bbc,cd->bbd",
                              ",->"};
constexpr int64_t kNumbers[] = {0, 1,    2,       3,         -1,
                                7, 4096, 1 << 30, INT64_MAX, INT64_MIN};

class Mutation {
 public:
  explicit Mutation(unsigned seed) : random_(seed) {}

  size_t Below(size_t n) { return random_() % n; }

  void Apply(GraphDef* graph) {
    if (graph->node_size() == 0) return;
    NodeDef* const node = Any(graph);
    switch (Below(9)) {
      case 0:
        node->set_op(kOps[Below(std::size(kOps))]);
        break;
      case 1:  // replaces an input
        if (node->input_size() > 0) {
          node->set_input(Below(node->input_size()), AnyTensor(graph));
        }
        break;
      case 2:
        node->add_input(AnyTensor(graph));
        break;
      case 3:
        if (node->input_size() > 0) node->mutable_input()->RemoveLast();
        break;
      case 4: {  // duplicates the node, and lets another node read the copy
        NodeDef copy = *node;
        copy.set_name(node->name() + "_" + std::to_string(Below(1000)));
        Any(graph)->add_input(copy.name());
        *graph->add_node() = copy;
        break;
      }
      case 5: {  // copies an attribute of another node
        const auto& attributes = Any(graph)->attr();
        if (attributes.empty()) break;
        const auto found =
            std::next(attributes.begin(), Below(attributes.size()));
        (*node->mutable_attr())[found->first] = AttrValue(found->second);
        break;
      }
      default:
        Change(&(*node->mutable_attr())[AnyAttribute(*node)]);
    }
  }

 private:
  NodeDef* Any(GraphDef* graph) {
    return graph->mutable_node(Below(graph->node_size()));
  }

  std::string AnyTensor(GraphDef* graph) {
    const std::string name = Any(graph)->name();
    const size_t how = Below(8);
    return how == 0 ? "^" + name : how == 1 ? name + ":1" : name;
  }

  std::string AnyAttribute(const NodeDef& node) {
    if (node.attr().empty() || Below(3) == 0) {
      return kAttributes[Below(std::size(kAttributes))];
    }
    return std::next(node.attr().begin(), Below(node.attr().size()))->first;
  }

  int64_t Number() { return kNumbers[Below(std::size(kNumbers))]; }

  void Change(AttrValue* value) {
    switch (value->value_case()) {
      case AttrValue::kI:
        value->set_i(Number());
        break;
      case AttrValue::kB:
        value->set_b(!value->b());
        break;
      case AttrValue::kF:
        value->set_f(static_cast<float>(Number()) / 3);
        break;
      case AttrValue::kS:
        value->set_s(kWords[Below(std::size(kWords))]);
        break;
      case AttrValue::kType:
        value->set_type(static_cast<tensorflow::DataType>(Below(24)));
        break;
      case AttrValue::kShape:
        Change(value->mutable_shape());
        break;
      case AttrValue::kTensor:
        if (Below(2) == 0) {
          Change(value->mutable_tensor()->mutable_tensor_shape());
        } else {
          ChangeContent(value->mutable_tensor());
        }
        break;
      case AttrValue::kList: {
        auto* const numbers = value->mutable_list()->mutable_i();
        if (numbers->empty() || Below(4) == 0) {
          numbers->Add(Number());
        } else {
          numbers->Set(Below(numbers->size()), Number());
        }
        break;
      }
      default:
        value->mutable_list()->add_i(Number());
    }
  }

  void Change(tensorflow::TensorShapeProto* shape) {
    if (shape->dim_size() == 0 || Below(4) == 0) {
      shape->add_dim()->set_size(Number());
    } else if (Below(4) == 0) {
      shape->mutable_dim()->RemoveLast();
    } else {
      shape->mutable_dim(Below(shape->dim_size()))->set_size(Number());
    }
  }

  void ChangeContent(tensorflow::TensorProto* tensor) {
    std::string* const bytes = tensor->mutable_tensor_content();
    if (!bytes->empty()) {
      (*bytes)[Below(bytes->size())] ^= 1 << Below(8);
    } else if (tensor->int_val_size() > 0) {
      tensor->set_int_val(0, static_cast<int>(Number()));
    } else if (tensor->float_val_size() > 0) {
      tensor->set_float_val(0, static_cast<float>(Number()));
    }
  }

  std::mt19937 random_;
};

// Parses a graph in text format, like the initial files of the corpus, or in
// binary format, which takes a tenth of the time.
bool Parse(const uint8_t* data, size_t size, GraphDef* graph) {
  if (graph->ParseFromArray(data, static_cast<int>(size))) return true;
  TextFormat::Parser parser;
  // Drops error messages.
  class Silent : public google::protobuf::io::ErrorCollector {
    void RecordError(int, int, absl::string_view) override {}
  } silent;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(
      std::string(reinterpret_cast<const char*>(data), size), graph);
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t max_size, unsigned seed) {
  GraphDef graph;
  if (!Parse(data, size, &graph)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  Mutation mutation(seed);
  for (size_t i = mutation.Below(3) + 1; i > 0; --i) mutation.Apply(&graph);
  const std::string bytes = graph.SerializeAsString();
  if (bytes.size() > max_size) return size;
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  GraphDef graph;
  if (!Parse(data, size, &graph) || graph.node_size() > kMaxNodes ||
      !TensorFlowReads(graph) || !Accept(graph).ok()) {
    return 0;
  }
  tensorflow::grappler::GrapplerItem item = Item(graph);
  if (!ios::tf::InlineConvolutionCalls(&item).ok()) return 0;
  const auto partition = PartitionGraph(item, PartitionOptions());
  if (!partition.ok()) return 0;
  FUZZ_CHECK(Collect(*partition).ok());
  ios::tf::RewriteOptions options;
  for (const ios::tf::Region& region : partition->regions) {
    for (const std::vector<int>& operators : region.blocks) {
      const ios::Block block = MakeBlock(*partition, operators, "").block;
      FUZZ_CHECK(Validate(block).ok());
      options.schedules[ios::Signature(block)] = ToJson(ScheduleOf(block));
    }
  }
  CheckLowered(item, /*annotated=*/false);
  CheckLowered(item, /*annotated=*/true);
  CheckRewritten(*partition, item.graph, options);
  return 0;
}

// Builds small TensorFlow graphs node by node, and imports their operators.
#ifndef IOS_TF_TESTS_CC_GRAPHS_H_
#define IOS_TF_TESTS_CC_GRAPHS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/tensorflow/fuse/operator_graph.h"
#include "cc/tensorflow/fuse/rules.h"
#include "cc/tensorflow/import/importer.h"
#include "cc/tensorflow/shapes/analyzed_graph.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tests/cc/testing.h"

namespace ios::tf {

class TestGraph {
 public:
  using NodeDef = ::tensorflow::NodeDef;
  using NodeDefBuilder = ::tensorflow::NodeDefBuilder;
  using Tensor = ::tensorflow::Tensor;
  using Sizes = std::vector<int>;

  // Creates a graph with the float input "image".
  explicit TestGraph(const std::vector<int64_t>& shape) {
    Add(NodeDefBuilder("image", "Placeholder")
            .Attr("dtype", ::tensorflow::DT_FLOAT)
            .Attr("shape", ::tensorflow::PartialTensorShape(shape)));
    item_.feed = {{"image", Tensor(::tensorflow::DT_FLOAT,
                                   ::tensorflow::TensorShape(shape))}};
  }

  NodeDef* Add(NodeDefBuilder builder) {
    NodeDef* node = item_.graph.add_node();
    EXPECT(builder.Finalize(node).ok());
    return node;
  }

  // Adds a constant with these values, or with 0.5 for all elements if `values`
  // is empty.
  std::string Floats(const std::string& name, const std::vector<int64_t>& shape,
                     const std::vector<float>& values = {}) {
    Tensor tensor(::tensorflow::DT_FLOAT, ::tensorflow::TensorShape(shape));
    for (int64_t i = 0; i < tensor.NumElements(); ++i) {
      tensor.flat<float>()(i) = values.empty() ? 0.5f : values[i];
    }
    return Constant(name, tensor);
  }
  std::string Integers(const std::string& name,
                       const std::vector<int64_t>& shape,
                       const std::vector<int32_t>& values) {
    Tensor tensor(::tensorflow::DT_INT32, ::tensorflow::TensorShape(shape));
    std::copy(values.begin(), values.end(), tensor.flat<int32_t>().data());
    return Constant(name, tensor);
  }

  // An input that reads output 0 of the node `name`, a tensor of type `dtype`.
  struct In {
    std::string name;
    ::tensorflow::DataType dtype = ::tensorflow::DT_FLOAT;
  };
  NodeDefBuilder Builder(const std::string& name, const std::string& op,
                         const std::vector<In>& inputs) {
    NodeDefBuilder builder(name, op);
    for (const In& in : inputs) builder.Input(in.name, 0, in.dtype);
    return builder;
  }
  std::string Op(const std::string& name, const std::string& op,
                 const std::vector<std::string>& inputs) {
    NodeDefBuilder builder(name, op);
    for (const std::string& in : inputs) {
      builder.Input(in, 0, ::tensorflow::DT_FLOAT);
    }
    Add(builder);
    return name;
  }
  std::string Convolution(const std::string& name, const std::string& input,
                          int size, int channels, int filters, int stride = 1,
                          const std::string& padding = "SAME",
                          const std::string& op = "Conv2D") {
    const std::string weights =
        Floats(name + "/filter", {size, size, channels, filters});
    Add(Builder(name, op, {{input}, {weights}})
            .Attr("strides", Sizes{1, stride, stride, 1})
            .Attr("padding", padding));
    return name;
  }
  std::string Pool(const std::string& name, const std::string& input, int size,
                   int stride, const std::string& op = "MaxPool") {
    Add(Builder(name, op, {{input}})
            .Attr("ksize", Sizes{1, size, size, 1})
            .Attr("strides", Sizes{1, stride, stride, 1})
            .Attr("padding", "VALID"));
    return name;
  }
  std::string Pad(const std::string& name, const std::string& input,
                  const std::vector<int32_t>& cells) {
    const std::string paddings =
        Integers(name + "/cells", {4, 2},
                 {0, 0, cells[0], cells[1], cells[2], cells[3], 0, 0});
    Add(Builder(name, "Pad", {{input}, {paddings, ::tensorflow::DT_INT32}}));
    return name;
  }
  std::string Reshape(const std::string& name, const std::string& input,
                      const std::vector<int32_t>& shape) {
    const std::string wanted =
        Integers(name + "/shape", {static_cast<int64_t>(shape.size())}, shape);
    Add(Builder(name, "Reshape", {{input}, {wanted, ::tensorflow::DT_INT32}}));
    return name;
  }
  std::string Mean(const std::string& name, const std::string& input,
                   bool keep_dims) {
    const std::string axes = Integers(name + "/axes", {2}, {1, 2});
    Add(Builder(name, "Mean", {{input}, {axes, ::tensorflow::DT_INT32}})
            .Attr("keep_dims", keep_dims));
    return name;
  }
  std::string Concat(const std::string& name,
                     const std::vector<std::string>& inputs) {
    const std::string axis = Integers(name + "/axis", {}, {3});
    std::vector<NodeDefBuilder::NodeOut> values;
    for (const std::string& in : inputs) {
      values.emplace_back(in, 0, ::tensorflow::DT_FLOAT);
    }
    Add(NodeDefBuilder(name, "ConcatV2")
            .Input(values)
            .Input(axis, 0, ::tensorflow::DT_INT32));
    return name;
  }

  // Makes the node an output of the graph.
  void Fetch(const std::string& name) { item_.fetch.push_back(name); }

  const ::tensorflow::grappler::GrapplerItem& item() const { return item_; }

 private:
  std::string Constant(const std::string& name, const Tensor& value) {
    Add(NodeDefBuilder(name, "Const")
            .Attr("dtype", value.dtype())
            .Attr("value", value));
    return name;
  }

  ::tensorflow::grappler::GrapplerItem item_;
};

// The operators of a graph before any fusion rule is applied, one for each
// node. The graph must outlive this object.
class ImportedGraph {
 public:
  explicit ImportedGraph(const TestGraph& graph,
                         const DevicePlacement& placement = DevicePlacement()) {
    auto analyzed =
        AnalyzedGraph::Create(graph.item(), /*batch_size=*/1, kUsualImageSize);
    EXPECT(analyzed.ok());
    analyzed_ = *std::move(analyzed);
    std::vector<Refusal> refusals;
    operators_ = std::make_unique<OperatorGraph>(
        *analyzed_, ImportNodes(analyzed_.get(), placement, &refusals));
  }

  OperatorGraph& operators() { return *operators_; }
  GraphView& graph() const { return analyzed_->graph(); }
  const LayoutMap& layouts() const { return analyzed_->layouts(); }

  // Applies a rule to each operator until it changes nothing. Returns how often
  // the rule changed the graph.
  int Apply(Rule rule) {
    int applied = 0;
    for (size_t i = 0; i < operators_->size(); ++i) {
      while (operators_->IsAlive(i) && rule(*operators_, i)) ++applied;
    }
    return applied;
  }

  // Returns the types of the operators that no rule has removed.
  std::vector<OperatorType> Types() const {
    std::vector<OperatorType> types;
    for (int i : Alive()) types.push_back((*operators_)[i].op.type);
    return types;
  }
  // Returns number `k` of the operators that no rule has removed.
  const ImportedOperator& At(int k) const { return (*operators_)[Alive()[k]]; }
  int size() const { return Alive().size(); }

 private:
  std::vector<int> Alive() const {
    std::vector<int> alive;
    for (size_t i = 0; i < operators_->size(); ++i) {
      if (operators_->IsAlive(i)) alive.push_back(i);
    }
    return alive;
  }

  std::unique_ptr<AnalyzedGraph> analyzed_;
  std::unique_ptr<OperatorGraph> operators_;
};

}  // namespace ios::tf

#endif  // IOS_TF_TESTS_CC_GRAPHS_H_

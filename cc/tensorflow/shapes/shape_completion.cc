#include "cc/tensorflow/shapes/shape_completion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cc/tensorflow/graph/one_of.h"
#include "cc/tensorflow/graph/pure_nodes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/optimizers/evaluation_utils.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::PartialTensorShape;
using ::tensorflow::Tensor;
using ::tensorflow::shape_inference::InferenceContext;

// Tensors with more elements are not evaluated, because they are not shapes.
constexpr int64_t kLongest = 64;

// Converts a shape from Grappler, which writes unknown dimensions as -2, -3, …,
// to one that TensorFlow accepts. An invalid shape, for example with too many
// elements to count, becomes an unknown shape.
PartialTensorShape KnownShape(tensorflow::TensorShapeProto shape) {
  for (auto& dim : *shape.mutable_dim()) {
    dim.set_size(std::max<int64_t>(dim.size(), -1));
  }
  PartialTensorShape known;
  if (!PartialTensorShape::BuildPartialTensorShape(shape, &known).ok()) {
    return PartialTensorShape();
  }
  return known;
}

// Returns whether the node's shape function may be used. It may not be used for
// a Switch or Merge, because run-time values decide which of their tensors
// exist.
bool IsInferable(const NodeDef& node) {
  return IsPure(node) && node.op() != "Merge" && node.op() != "Switch";
}

class Completion {
 public:
  Completion(const GraphView& view, const tensorflow::GraphDef& graph,
             const PlaceholderSizes& placeholder, OutputProperties* outputs)
      : view_(view),
        graph_(graph),
        placeholder_(placeholder),
        outputs_(*outputs),
        failed_(view.size()),
        evaluated_(view.size()),
        values_(view.size()) {}

  BoundDistances Bounds() {
    return ReadBounds(view_, graph_, outputs_,
                      [&](TensorRef t) { return Value(t); });
  }

  // Returns the number of tensors that got placeholder sizes.
  int Run() {
    for (int i : view_.order()) {
      const auto& outputs = outputs_[i];
      if (std::any_of(outputs.begin(), outputs.end(), [](const auto& output) {
            return !KnownShape(output.shape()).IsFullyDefined();
          })) {
        failed_[i] = ReadsFailed(i) || !Infer(i);
        if (!failed_[i]) FillUnknown(i);
      }
    }
    for (int i : view_.order()) {
      if (!OneOf(graph_.node(i).op(), {"SpaceToBatchND", "BatchToSpaceND",
                                       "Slice", "StridedSlice"})) {
        continue;
      }
      for (size_t k = 1; k < view_.inputs(i).size(); ++k) {
        const TensorRef t = view_.inputs(i)[k];
        // Reads begin and end only for slices of floating-point data, not for
        // slices of shapes.
        const auto* data = Output(view_.inputs(i)[0]);
        if (!data || !tensorflow::DataTypeIsFloating(data->dtype())) break;
        if (const Tensor* value = Value(t)) {
          value->AsProtoTensorContent(outputs_[t.node][t.port].mutable_value());
        }
      }
    }
    return filled_;
  }

 private:
  bool ReadsFailed(int i) const {
    return std::any_of(view_.inputs(i).begin(), view_.inputs(i).end(),
                       [&](TensorRef t) { return failed_[t.node]; });
  }

  // Returns false if TensorFlow rejects the inputs.
  bool Infer(int i) {
    const NodeDef& node = graph_.node(i);
    const tensorflow::OpRegistrationData* op = nullptr;
    if (!IsInferable(node) ||
        !tensorflow::OpRegistry::Global()->LookUp(node.op(), &op).ok() ||
        !op->shape_inference_fn) {
      return true;
    }
    std::vector<PartialTensorShape> shapes, as_shapes;
    std::vector<const Tensor*> values;
    for (const TensorRef& t : view_.inputs(i)) {
      const auto* input = Output(t);
      if (!input) return true;
      const Tensor* value = Value(t);
      if (value && value->dtype() != input->dtype()) return true;
      // If the value is known, the declared shape must be the shape of the
      // value: shape functions read as many elements as the declared shape
      // says, without a check.
      shapes.push_back(value ? PartialTensorShape(value->shape().dim_sizes())
                             : KnownShape(input->shape()));
      as_shapes.emplace_back();
      values.push_back(value);
    }
    NodeDef complete = node;
    tensorflow::AddDefaultsToNodeDef(op->op_def, &complete);
    InferenceContext context(graph_.versions().producer(), complete, op->op_def,
                             shapes, values, as_shapes, {});
    if (!context.construction_status().ok() ||
        !context.Run(op->shape_inference_fn).ok()) {
      return false;
    }
    for (int port = 0; port < context.num_outputs() &&
                       port < static_cast<int>(outputs_[i].size());
         ++port) {
      if (context.FullyDefined(context.output(port))) {
        *outputs_[i][port].mutable_shape() =
            context.ShapeHandleToProto(context.output(port));
      }
    }
    return true;
  }

  // Gives sizes to images and sequences of which only the channels are known.
  void FillUnknown(int i) {
    if (!placeholder_.fill_unknown) return;
    for (auto& output : outputs_[i]) {
      tensorflow::TensorShapeProto& shape = *output.mutable_shape();
      const int rank = shape.unknown_rank() ? 0 : shape.dim_size();
      if (!tensorflow::DataTypeIsFloating(output.dtype()) || rank < 3 ||
          rank > 4 || shape.dim(rank - 1).size() < 0 ||
          // Grappler writes -1 if nothing is known about a batch size. It gives
          // other unknown batch sizes the numbers -2, -3, …, and equal batch
          // sizes the same number.
          shape.dim(0).size() == -1) {
        continue;
      }
      bool unknown = false;
      for (int d = 1; d < rank - 1; ++d) {
        unknown = unknown || shape.dim(d).size() < 0;
      }
      if (!unknown) continue;
      // Each tensor gets other sizes, because two tensors with unknown sizes
      // may have different sizes.
      const int64_t more = placeholder_.step * (filled_ + 1);
      if (shape.dim(0).size() < 0) {
        shape.mutable_dim(0)->set_size(placeholder_.Batch(shape.dim(0).size()));
      }
      for (int d = 1; d < rank - 1; ++d) {
        if (shape.dim(d).size() < 0) {
          // A sequence is an image of height 1.
          const int size = rank == 3 ? 1 : d - 1;
          shape.mutable_dim(d)->set_size(placeholder_.sizes[size] + more);
        }
      }
      ++filled_;
    }
  }

  const tensorflow::OpInfo::TensorProperties* Output(TensorRef t) const {
    return t.port < static_cast<int>(outputs_[t.node].size())
               ? &outputs_[t.node][t.port]
               : nullptr;
  }

  // Returns the values of a short tensor that depends on known shapes alone, or
  // null.
  const Tensor* Value(TensorRef t) {
    if (t.port != 0) return nullptr;
    const int i = t.node;
    if (!evaluated_[i]) {
      evaluated_[i] = true;
      values_[i] = Evaluate(i);
    }
    return values_[i] ? &*values_[i] : nullptr;
  }

  std::optional<Tensor> Evaluate(int i) {
    const NodeDef& node = graph_.node(i);
    const auto* output = Output({i, 0});
    // The size is checked before the evaluation, because the result of a Fill
    // or a broadcast may be large.
    if (!output || KnownShape(output->shape()).num_elements() > kLongest) {
      return std::nullopt;
    }
    if (node.op() == "Const") {
      const auto value = node.attr().find("value");
      Tensor tensor;
      if (value == node.attr().end() ||
          !tensor.FromProto(value->second.tensor())) {
        return std::nullopt;
      }
      return tensor;
    }
    if (view_.inputs(i).empty()) return std::nullopt;
    if (node.op() == "Shape") {
      const auto* input = Output(view_.inputs(i)[0]);
      if (!input) return std::nullopt;
      const PartialTensorShape shape = KnownShape(input->shape());
      if (!shape.IsFullyDefined()) return std::nullopt;
      Tensor tensor(output->dtype(), tensorflow::TensorShape({shape.dims()}));
      for (int d = 0; d < shape.dims(); ++d) {
        if (output->dtype() == tensorflow::DT_INT64) {
          tensor.flat<int64_t>()(d) = shape.dim_size(d);
        } else {
          tensor.flat<int32_t>()(d) = shape.dim_size(d);
        }
      }
      return tensor;
    }
    absl::InlinedVector<tensorflow::TensorValue, 4> inputs, results;
    if (!IsEvaluable(node)) return std::nullopt;
    for (const TensorRef& t : view_.inputs(i)) {
      const Tensor* value = Value(t);
      if (!value) return std::nullopt;
      inputs.emplace_back(const_cast<Tensor*>(value));
    }
    NodeDef pure = node;
    pure.clear_device();
    const absl::Status status = tensorflow::grappler::EvaluateNode(
        pure, inputs, &cpu_, /*resource_mgr=*/nullptr, &results);
    std::optional<Tensor> result;
    for (size_t k = 0; k < results.size(); ++k) {
      if (status.ok() && k == 0 && results[k].tensor) {
        result = *results[k].tensor;
      }
      delete results[k].tensor;
    }
    return result && result->NumElements() <= kLongest ? result : std::nullopt;
  }

  const GraphView& view_;
  const tensorflow::GraphDef& graph_;
  const PlaceholderSizes& placeholder_;
  int filled_ = 0;
  OutputProperties& outputs_;
  std::vector<bool> failed_;  // by node, and for the readers of failed nodes
  std::vector<bool> evaluated_;
  std::vector<std::optional<Tensor>> values_;  // of output 0
  tensorflow::grappler::DeviceSimple cpu_;
};

}  // namespace

int CompleteShapes(const GraphView& view, const tensorflow::GraphDef& graph,
                   const PlaceholderSizes& placeholder,
                   OutputProperties* outputs, BoundDistances* bounds) {
  Completion completion(view, graph, placeholder, outputs);
  const int filled = completion.Run();
  *bounds = completion.Bounds();
  return filled;
}

}  // namespace ios::tf

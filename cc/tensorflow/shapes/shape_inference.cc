#include "cc/tensorflow/shapes/shape_inference.h"

#include <algorithm>
#include <utility>

#include "cc/core/limits.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/shapes/output_properties.h"
#include "cc/tensorflow/shapes/shape_completion.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"

namespace ios::tf {
namespace {

using TensorProperties = tensorflow::OpInfo::TensorProperties;

absl::StatusOr<OutputProperties> InferStatically(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item) {
  tensorflow::grappler::GraphProperties properties(item);
  absl::Status inferred = properties.InferStatically(
      /*assume_valid_feeds=*/true, /*aggressive_shape_inference=*/true,
      /*include_tensor_values=*/false);
  if (!inferred.ok()) {
    inferred.SetPayload(kNoShapes, absl::Cord());
    return inferred;
  }
  OutputProperties outputs;
  for (int i = 0; i < view.size(); ++i) {
    outputs.push_back(properties.GetOutputProperties(view.node(i).name()));
  }
  return outputs;
}

bool IsSequence(const TensorProperties& output) {
  return !output.shape().unknown_rank() && output.shape().dim_size() == 3;
}

OutputTypes TypesOf(const OutputProperties& outputs) {
  OutputTypes types;
  for (const std::vector<TensorProperties>& of_node : outputs) {
    auto& dtypes = types.dtypes.emplace_back();
    auto& sequences = types.sequences.emplace_back();
    for (const TensorProperties& output : of_node) {
      dtypes.push_back(output.dtype());
      sequences.push_back(IsSequence(output));
    }
  }
  return types;
}

std::optional<std::vector<int64_t>> ReadIntegers(
    const TensorProperties& output) {
  tensorflow::Tensor value;
  if (!output.has_value() || !value.FromProto(output.value())) {
    return std::nullopt;
  }
  return Integers(&value);
}

// Returns the shape of an output, or nullopt if a dimension is unknown or the
// type is not a floating-point type. Updates the flags of `sample`.
std::optional<Shape> ReadShape(const TensorProperties& output,
                               const PlaceholderSizes& placeholder,
                               SampleShapes* sample) {
  if (!tensorflow::DataTypeIsFloating(output.dtype()) ||
      output.shape().unknown_rank()) {
    return std::nullopt;
  }
  Shape shape;
  for (const auto& dim : output.shape().dim()) shape.push_back(dim.size());
  // The leading dimension may depend on values: for example, a detector's
  // number of boxes is the batch size of later tensors. Grappler writes unknown
  // dimensions as -2, -3, ….
  if (!shape.empty() && shape[0] < -1 && placeholder.fill_unknown) {
    shape[0] = placeholder.Batch(shape[0]);
    sample->depends_on_values = true;
  }
  if (!shape.empty() && shape[0] == 0 && placeholder.zero_batch > 0) {
    shape[0] = placeholder.zero_batch;
    sample->has_zero_batch = true;
  }
  if (!std::all_of(shape.begin(), shape.end(),
                   [](int64_t d) { return d >= 0 && d <= kMaxDimension; })) {
    return std::nullopt;
  }
  if (IsSequence(output)) shape.insert(shape.begin() + 1, 1);
  return shape;
}

}  // namespace

const Shape* FindShape(const OutputShapes& shapes, TensorRef tensor) {
  const auto& of_node = shapes[tensor.node];
  return tensor.port < static_cast<int>(of_node.size()) && of_node[tensor.port]
             ? &*of_node[tensor.port]
             : nullptr;
}

tensorflow::DataType OutputTypes::dtype(TensorRef tensor) const {
  const auto& of_node = dtypes[tensor.node];
  return tensor.port < static_cast<int>(of_node.size())
             ? of_node[tensor.port]
             : tensorflow::DT_INVALID;
}

bool OutputTypes::IsSequence(TensorRef tensor) const {
  const std::vector<bool>& of_node = sequences[tensor.node];
  return tensor.port < static_cast<int>(of_node.size()) && of_node[tensor.port];
}

absl::StatusOr<SampleShapes> InferSampleShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    const PlaceholderSizes& placeholder, OutputTypes* types) {
  TF_ASSIGN_OR_RETURN(OutputProperties outputs, InferStatically(view, item));
  SampleShapes sample;
  sample.depends_on_values = CompleteShapes(view, item.graph, placeholder,
                                            &outputs, &sample.bounds) > 0;
  if (placeholder.example) *types = TypesOf(outputs);
  for (int i = 0; i < view.size(); ++i) {
    auto& shapes = sample.shapes.emplace_back();
    for (const TensorProperties& output : outputs[i]) {
      const int port = static_cast<int>(shapes.size());
      std::optional<Shape>& shape = shapes.emplace_back();
      if (auto integers = ReadIntegers(output)) {
        sample.integers[{i, port}] = std::move(*integers);
      }
      // A tensor is used only if it has the same rank as in the example.
      const std::vector<bool>& sequences = types->sequences[i];
      if (port < static_cast<int>(sequences.size()) &&
          sequences[port] == IsSequence(output)) {
        shape = ReadShape(output, placeholder, &sample);
      }
    }
  }
  return sample;
}

}  // namespace ios::tf

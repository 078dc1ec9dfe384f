// Shapes, types and integers of GraphIndex's tensors, for each probe.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/limits.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/graph/one_of.h"
#include "cc/tensorflow/graph/probes.h"
#include "cc/tensorflow/graph/shape_inference.h"
#include "cc/tensorflow/graph/strip_weights.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::grappler::GrapplerItem;

// The difference between the placeholder sizes of one tensor and the next.
constexpr int64_t kFreshStep = 64;
// The number of images that replaces 0 in a probe of one image. A slice that
// takes only the second image never has this many images.
constexpr int64_t kNoImages = 2;

}  // namespace

absl::Status GraphIndex::ReadShapes(const GrapplerItem& item,
                                    int64_t batch_size,
                                    const ImageSize& image_size) {
  std::set<std::string> unknown;
  for (const auto& feed : item.feed) {
    const std::string name(tensorflow::ParseTensorName(feed.first).node());
    const int i = Find(name);
    if (i < 0) continue;
    nodes_[i].fed = true;
    const auto type = OutputType(node(i));
    if (!InputShape(node(i)) && type && tensorflow::DataTypeIsInteger(*type)) {
      unknown.insert(name);
    }
  }
  Probes made = MakeProbes(item.graph, batch_size, image_size);
  std::vector<Probe>& probes = made.probes;
  const bool inputs_vary = made.inputs_vary, sizes_vary = made.sizes_vary;
  if (inputs_vary) AddUnpredictable(&unknown);
  const GrapplerItem small = StripWeights(item, unknown);
  const auto infer = [&](const Probe& probe, bool example) {
    GrapplerItem sized = small;
    SetInputSizes(item.graph, probe, &sized.graph);
    const bool more = !example && !probe.optional;
    return InferShapes(sized,
                       {example, batch_size, probe.sizes, more ? kFreshStep : 0,
                        inputs_vary && probe.batch == 1 ? kNoImages : 0});
  };
  TF_ASSIGN_OR_RETURN(const bool values_matter, infer(probes[0], true));
  if (sizes_vary && HasMisfits()) {
    TF_ASSIGN_OR_RETURN(fitting_sizes_, FittingSizes(infer, probes[0]));
    if (fitting_sizes_) UseSizes(*fitting_sizes_, &probes);
    TF_RETURN_IF_ERROR(infer(probes[0], true).status());
  }
  if (values_matter && !sizes_vary) AddSizes(image_size, &probes);
  // One probe is enough if inputs have one size and no shapes depend on values.
  if (!values_matter && !inputs_vary) probes.resize(1);
  for (size_t k = 1; k < probes.size(); ++k) {
    TF_RETURN_IF_ERROR(infer(probes[k], false).status());
  }
  if (batches_end_) {
    for (int64_t batch : {2, 4}) {
      const Probe few = {batch, probes[0].sizes, /*optional=*/true};
      TF_RETURN_IF_ERROR(infer(few, false).status());
    }
  }
  if (probes.size() > 1) {
    ProbeBounds(infer, probes[0], {inputs_vary, sizes_vary || values_matter});
  }
  example_batch_ = probes[0].batch;
  example_sizes_ = probes[0].sizes;
  required_probes_ =
      std::count_if(probes.begin(), probes.end(),
                    [](const Probe& probe) { return !probe.optional; });
  ForgetUncertainShapes();
  return absl::OkStatus();
}

void GraphIndex::ForgetUncertainShapes() {
  for (Node& node : nodes_) {
    for (size_t port = 0; port < node.dtypes.size(); ++port) {
      bool known = true;
      for (int probe = 0; known && probe < probes_; ++probe) {
        const auto& shapes = node.shapes[probe];
        known = port < shapes.size() && shapes[port]
                    ? shapes[port]->size() == node.shapes[0][port]->size()
                    : probe >= required_probes_;
      }
      if (known) continue;
      for (auto& shapes : node.shapes) {
        if (port < shapes.size()) shapes[port].reset();
      }
    }
  }
}

absl::StatusOr<bool> GraphIndex::InferShapes(const GrapplerItem& item,
                                             const PlaceholderSizes& fresh) {
  tensorflow::grappler::GraphProperties properties(item);
  absl::Status inferred = properties.InferStatically(
      /*assume_valid_feeds=*/true, /*aggressive_shape_inference=*/true,
      /*include_tensor_values=*/false);
  if (!inferred.ok()) {
    inferred.SetPayload(kNoShapes, absl::Cord());
    return inferred;
  }
  OutputProperties outputs;
  std::vector<std::vector<TensorRef>> inputs;
  for (const Node& node : nodes_) {
    outputs.push_back(properties.GetOutputProperties(node.def->name()));
    inputs.push_back(node.inputs);
  }
  BoundDistances bounds;
  bool values_matter =
      CompleteShapes(item.graph, order_, inputs, fresh, &outputs, &bounds) > 0;
  integers_.emplace_back();
  bounds_.push_back(std::move(bounds));
  for (Node& node : nodes_) {
    auto& results = node.shapes.emplace_back();
    for (const auto& output : outputs[&node - nodes_.data()]) {
      const tensorflow::TensorShapeProto& proto = output.shape();
      const bool sequence = !proto.unknown_rank() && proto.dim_size() == 3;
      const size_t port = results.size();
      ReadIntegers(
          {static_cast<int>(&node - nodes_.data()), static_cast<int>(port)},
          output);
      std::optional<Shape>& result = results.emplace_back();
      if (fresh.example) {
        node.dtypes.push_back(output.dtype());
        node.sequences.push_back(sequence);
      }
      if (!tensorflow::DataTypeIsFloating(output.dtype()) ||
          proto.unknown_rank() || port >= node.sequences.size() ||
          node.sequences[port] != sequence) {
        continue;
      }
      Shape shape;
      for (const auto& dim : proto.dim()) shape.push_back(dim.size());
      // The number of boxes that a detector finds, for example, is the batch of
      // the tensors that follow. Grappler numbers unknown dimensions from -2
      // downwards.
      if (!shape.empty() && shape[0] < -1 && fresh.made_up) {
        shape[0] = fresh.Batch(shape[0]);
        values_matter = true;
      }
      if (!shape.empty() && shape[0] == 0 && fresh.no_images > 0) {
        shape[0] = fresh.no_images;
        batches_end_ = true;
      }
      if (std::all_of(shape.begin(), shape.end(),
                      [](int64_t d) { return d >= 0 && d <= kMaxDimension; })) {
        if (sequence) shape.insert(shape.begin() + 1, 1);
        result = std::move(shape);
      }
    }
  }
  ++probes_;
  return values_matter;
}

void GraphIndex::ReadIntegers(
    TensorRef tensor, const tensorflow::OpInfo::TensorProperties& output) {
  tensorflow::Tensor value;
  if (!output.has_value() || !value.FromProto(output.value())) return;
  auto numbers = Integers(&value);
  if (numbers) integers_.back()[tensor] = std::move(*numbers);
}

const std::vector<int64_t>* GraphIndex::integers(TensorRef tensor,
                                                 int probe) const {
  const auto it = integers_[probe].find(tensor);
  return it == integers_[probe].end() ? nullptr : &it->second;
}

bool GraphIndex::fixed_size(TensorRef tensor) const {
  const Shape* example = shape(tensor);
  if (!example) return false;
  for (size_t d = 1; d < example->size(); ++d) {
    if (!fixed(tensor, d)) return false;
  }
  return true;
}

void GraphIndex::InferEmptyShapes() {
  empty_shapes_.emplace();
  const GrapplerItem small = StripWeights(*item_, {});
  for (const Probe& probe :
       {Probe{0, example_sizes_}, Probe{example_batch_, {0, 0}}}) {
    GrapplerItem sized = small;
    SetInputSizes(item_->graph, probe, &sized.graph);
    PlaceholderSizes none;
    none.example = none.made_up = false;
    if (!InferShapes(sized, none).ok()) continue;
    // This inference is not one of the probes.
    auto& shapes = empty_shapes_->emplace_back();
    for (Node& node : nodes_) {
      shapes.push_back(std::move(node.shapes.back()));
      node.shapes.pop_back();
    }
    integers_.pop_back();
    bounds_.pop_back();
    --probes_;
  }
}

bool GraphIndex::known(TensorRef tensor, int d) {
  if (!shape(tensor) || !fixed(tensor, d)) return false;
  if (probes_ == 1) return true;
  if (!empty_shapes_) InferEmptyShapes();
  const int at = channels_first(tensor) ? std::array{0, 2, 3, 1}[d] : d;
  for (const auto& shapes : *empty_shapes_) {
    const auto& of_node = shapes[tensor.node];
    if (tensor.port >= static_cast<int>(of_node.size())) continue;
    const std::optional<Shape>& here = of_node[tensor.port];
    if (here && here->size() == shape(tensor)->size() &&
        (*here)[at] != (*shape(tensor))[d]) {
      return false;
    }
  }
  return true;
}

bool GraphIndex::same_shape(TensorRef a, TensorRef b) const {
  return Agree(a, b, std::equal_to<Shape>());
}

bool GraphIndex::same_dimensions(TensorRef a, TensorRef b, size_t first,
                                 size_t last) const {
  return Agree(a, b, [&](const Shape& x, const Shape& y) {
    return x.size() >= last && y.size() >= last &&
           std::equal(x.begin() + first, x.begin() + last, y.begin() + first);
  });
}

const Shape* GraphIndex::shape(TensorRef tensor, int probe) const {
  const auto& shapes = nodes_[tensor.node].shapes[probe];
  if (tensor.port >= static_cast<int>(shapes.size())) return nullptr;
  return shapes[tensor.port] ? &*shapes[tensor.port] : nullptr;
}

Layout GraphIndex::layout(TensorRef tensor) const {
  if (channels_first(tensor)) return Layout::kChannelsFirst;
  const std::vector<bool>& sequences = nodes_[tensor.node].sequences;
  return tensor.port < static_cast<int>(sequences.size()) &&
                 sequences[tensor.port]
             ? Layout::kSequence
             : Layout::kChannelsLast;
}

tensorflow::DataType GraphIndex::dtype(TensorRef tensor) const {
  const auto& dtypes = nodes_[tensor.node].dtypes;
  return tensor.port < static_cast<int>(dtypes.size()) ? dtypes[tensor.port]
                                                       : tensorflow::DT_INVALID;
}

void GraphIndex::SetChannelsFirst(std::set<TensorRef> tensors) {
  channels_first_ = std::move(tensors);
  for (const TensorRef& t : channels_first_) {
    Node& node = nodes_[t.node];
    for (auto& shapes : node.shapes) {
      if (t.port >= static_cast<int>(shapes.size())) continue;
      if (std::optional<Shape>& s = shapes[t.port]; s && s->size() == 4) {
        s = Shape{(*s)[0], (*s)[2], (*s)[3], (*s)[1]};
      }
    }
  }
}

}  // namespace ios::tf

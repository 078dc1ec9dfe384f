#include "cc/tensorflow/shapes/shape_sampler.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/shapes/strip_weights.h"
#include "cc/tensorflow/shapes/unpredictable_nodes.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/lib/strings/proto_serialization.h"

namespace ios::tf {
namespace {

using ::tensorflow::grappler::GrapplerItem;

// The placeholder sizes of two consecutive tensors differ by this number.
constexpr int64_t kPlaceholderStep = 64;
// In a sample of one image, tensors without images get this number of images.
// It is 2, so that it differs from the 1 that a slice of the second image
// always has in larger batches.
constexpr int64_t kZeroBatch = 2;

// Returns the names of nodes whose values differ between calls. Shape inference
// must not use the values that these nodes have in `item`.
std::set<std::string> UnknownNumbers(const GraphView& view,
                                     const GrapplerItem& item,
                                     bool inputs_vary) {
  std::set<std::string> unknown;
  for (const auto& feed : item.feed) {
    const std::string name(tensorflow::ParseTensorName(feed.first).node());
    const int i = view.Find(name);
    if (i < 0) continue;
    const auto type = OutputType(view.node(i));
    if (!InputShape(view.node(i)) && type &&
        tensorflow::DataTypeIsInteger(*type)) {
      unknown.insert(name);
    }
  }
  if (inputs_vary) AddUnpredictableNodes(view, &unknown);
  return unknown;
}

}  // namespace

ShapeSampler::ShapeSampler(const GraphView& view, const GrapplerItem& item,
                           int64_t batch_size, bool inputs_vary)
    : view_(view),
      item_(item),
      batch_size_(batch_size),
      inputs_vary_(inputs_vary),
      stripped_(StripWeights(item, UnknownNumbers(view, item, inputs_vary))) {}

std::string ShapeSampler::Key() const {
  std::string key = absl::StrCat(batch_size_, " ", inputs_vary_);
  for (const auto& [name, tensor] : item_.feed) {
    absl::StrAppend(&key, "\n", name, " ", tensor.dtype(), " ",
                    tensor.shape().DebugString());
  }
  for (const auto* names : {&item_.fetch, &item_.init_ops, &item_.keep_ops}) {
    absl::StrAppend(&key, "\n\n", absl::StrJoin(*names, "\n"));
  }
  std::string graph;
  tensorflow::SerializeToStringDeterministic(stripped_.graph, &graph);
  absl::StrAppend(&key, "\n\n", graph);
  return key;
}

absl::StatusOr<bool> ShapeSampler::Add(const ShapeSample& sample) {
  GrapplerItem sized = stripped_;
  SetInputSizes(item_.graph, sample, &sized.graph);
  PlaceholderSizes placeholder;
  placeholder.example = samples_.empty();
  placeholder.batch = batch_size_;
  placeholder.sizes = sample.sizes;
  if (!placeholder.example && !sample.optional) {
    placeholder.step = kPlaceholderStep;
  }
  if (inputs_vary_ && sample.batch == 1) placeholder.zero_batch = kZeroBatch;
  TF_ASSIGN_OR_RETURN(SampleShapes inferred,
                      InferSampleShapes(view_, sized, placeholder, &types_));
  has_zero_batch_ = has_zero_batch_ || inferred.has_zero_batch;
  samples_.push_back(std::move(inferred));
  return samples_.back().depends_on_values;
}

void ShapeSampler::Clear() {
  samples_.clear();
  types_ = OutputTypes();
}

void ShapeSampler::ForgetShape(TensorRef tensor) {
  for (SampleShapes& sample : samples_) {
    auto& shapes = sample.shapes[tensor.node];
    if (tensor.port < static_cast<int>(shapes.size())) {
      shapes[tensor.port].reset();
    }
  }
}

void ShapeSampler::ForgetShapes(int node) {
  for (SampleShapes& sample : samples_) {
    for (std::optional<Shape>& shape : sample.shapes[node]) shape.reset();
  }
}

}  // namespace ios::tf

#include "cc/tensorflow/shapes/shape_table.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cc/tensorflow/shapes/bound_samples.h"
#include "cc/tensorflow/shapes/fitting_sizes.h"
#include "cc/tensorflow/shapes/layout_map.h"
#include "cc/tensorflow/shapes/shape_sampler.h"
#include "cc/tensorflow/shapes/usual_samples.h"
#include "cc/tensorflow/shapes/zero_batch_shapes.h"

namespace ios::tf {
namespace {

using ::tensorflow::grappler::GrapplerItem;

// Returns whether the tensor has a shape in all required samples, and the same
// rank in all samples in which it has a shape.
bool HasCertainShape(const ShapeSampler& sampler, TensorRef tensor,
                     int required_samples) {
  const int samples = sampler.samples().size();
  for (int sample = 0; sample < samples; ++sample) {
    const Shape* shape = sampler.shape(tensor, sample);
    if (shape ? shape->size() != sampler.shape(tensor, 0)->size()
              : sample < required_samples) {
      return false;
    }
  }
  return true;
}

void ForgetUncertainShapes(int required_samples, ShapeSampler* sampler) {
  for (int i = 0; i < sampler->view().size(); ++i) {
    const int ports = sampler->types().dtypes[i].size();
    for (int port = 0; port < ports; ++port) {
      if (!HasCertainShape(*sampler, {i, port}, required_samples)) {
        sampler->ForgetShape({i, port});
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShapeTable>> ShapeTable::Create(
    const GraphView& view, const GrapplerItem& item, int64_t batch_size,
    const ImageSize& image_size) {
  std::unique_ptr<ShapeTable> table(new ShapeTable(view, item));
  TF_RETURN_IF_ERROR(table->InferSamples(batch_size, image_size));
  return table;
}

absl::Status ShapeTable::InferSamples(int64_t batch_size,
                                      const ImageSize& image_size) {
  const VaryingSizes varying = FindVaryingSizes(item_.graph);
  std::vector<ShapeSample> samples =
      UsualSamples(item_.graph, batch_size, image_size);
  ShapeSampler sampler(view_, item_, batch_size, varying.any());
  TF_ASSIGN_OR_RETURN(const bool values_matter, sampler.Add(samples[0]));
  if (varying.images && HasMisfits(sampler)) {
    TF_ASSIGN_OR_RETURN(fitting_sizes_, FindFittingSizes(samples[0], &sampler));
    if (fitting_sizes_) UseFittingSizes(*fitting_sizes_, &samples);
    TF_RETURN_IF_ERROR(sampler.Add(samples[0]).status());
  }
  if (values_matter && !varying.images) AddVariedSizes(image_size, &samples);
  // One sample is enough if the sizes of all inputs are known and shapes do not
  // depend on values.
  if (!values_matter && !varying.any()) samples.resize(1);
  for (size_t k = 1; k < samples.size(); ++k) {
    TF_RETURN_IF_ERROR(sampler.Add(samples[k]).status());
  }
  if (sampler.has_zero_batch()) {
    for (int64_t batch : {2, 4}) {
      const ShapeSample few = {batch, samples[0].sizes, /*optional=*/true};
      TF_RETURN_IF_ERROR(sampler.Add(few).status());
    }
  }
  if (samples.size() > 1) {
    VaryingSizes sampled = varying;
    sampled.batches = varying.any();
    // Sizes that depend on values are those of the sample, too.
    sampled.heights = varying.heights || values_matter;
    sampled.widths = varying.widths || values_matter;
    bound_samples_ = AddBoundSamples(samples[0], sampled, &sampler);
  }
  example_ = samples[0];
  required_samples_ =
      std::count_if(samples.begin(), samples.end(),
                    [](const ShapeSample& sample) { return !sample.optional; });
  ForgetUncertainShapes(required_samples_, &sampler);
  types_ = sampler.types();
  samples_ = sampler.Take();
  return absl::OkStatus();
}

void ShapeTable::UseLayouts(const LayoutMap& layouts) {
  layouts_ = &layouts;
  for (SampleShapes& sample : samples_) ToChannelsLast(&sample.shapes);
}

void ShapeTable::ToChannelsLast(OutputShapes* shapes) const {
  for (const TensorRef& tensor : layouts_->channels_first_tensors()) {
    auto& of_node = (*shapes)[tensor.node];
    if (tensor.port >= static_cast<int>(of_node.size())) continue;
    if (std::optional<Shape>& s = of_node[tensor.port]; s && s->size() == 4) {
      s = Shape{(*s)[0], (*s)[2], (*s)[3], (*s)[1]};
    }
  }
}

std::set<TensorRef> ShapeTable::sequences() const {
  std::set<TensorRef> result;
  for (int i = 0; i < view_.size(); ++i) {
    const int ports = types_.sequences[i].size();
    for (int port = 0; port < ports; ++port) {
      if (is_sequence({i, port})) result.insert({i, port});
    }
  }
  return result;
}

const std::vector<int64_t>* ShapeTable::integers(TensorRef tensor,
                                                 int sample) const {
  const auto& integers = samples_[sample].integers;
  const auto it = integers.find(tensor);
  return it == integers.end() ? nullptr : &it->second;
}

bool ShapeTable::fixed_size(TensorRef tensor) const {
  const Shape* example = shape(tensor);
  if (!example) return false;
  for (size_t d = 1; d < example->size(); ++d) {
    if (!fixed(tensor, d)) return false;
  }
  return true;
}

bool ShapeTable::known(TensorRef tensor, int d) {
  if (!shape(tensor) || !fixed(tensor, d)) return false;
  if (samples() == 1) return true;
  if (!zero_batch_shapes_) {
    zero_batch_shapes_ = InferZeroBatchShapes(view_, item_, example_, types_);
    if (layouts_) {
      for (OutputShapes& shapes : *zero_batch_shapes_) ToChannelsLast(&shapes);
    }
  }
  for (const OutputShapes& shapes : *zero_batch_shapes_) {
    const Shape* here = FindShape(shapes, tensor);
    if (here && here->size() == shape(tensor)->size() &&
        (*here)[d] != (*shape(tensor))[d]) {
      return false;
    }
  }
  return true;
}

bool ShapeTable::same_shape(TensorRef a, TensorRef b) const {
  return Agree(a, b, std::equal_to<Shape>());
}

bool ShapeTable::same_dimensions(TensorRef a, TensorRef b, size_t first,
                                 size_t last) const {
  return Agree(a, b, [&](const Shape& x, const Shape& y) {
    return x.size() >= last && y.size() >= last &&
           std::equal(x.begin() + first, x.begin() + last, y.begin() + first);
  });
}

}  // namespace ios::tf

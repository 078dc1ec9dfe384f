// ShapeSampler: infers the shapes of a graph for one sample after the other.
// These strategies choose the samples: usual_samples.h, fitting_sizes.h,
// bound_samples.h and zero_batch_shapes.h.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLER_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/shape_inference.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

class ShapeSampler {
 public:
  // In the example (the first sample), batch sizes that depend on values are
  // `batch_size`. `inputs_vary` says whether the batch or image size of some
  // input is unknown. `view` and `item` describe the same graph and must
  // outlive the sampler.
  ShapeSampler(const GraphView& view,
               const tensorflow::grappler::GrapplerItem& item,
               int64_t batch_size, bool inputs_vary);

  // Returns a text that is equal for samplers that infer equal shapes.
  std::string Key() const;

  // Infers the shapes of a sample and stores them. The first sample is the
  // example. Returns whether shapes depend on values of the inputs.
  absl::StatusOr<bool> Add(const ShapeSample& sample);
  // Removes all samples.
  void Clear();

  const GraphView& view() const { return view_; }
  const std::vector<SampleShapes>& samples() const { return samples_; }
  const OutputTypes& types() const { return types_; }
  // Returns null if the shape of the tensor is unknown.
  const Shape* shape(TensorRef tensor, int sample) const {
    return FindShape(samples_[sample].shapes, tensor);
  }
  // Returns whether some tensor has no images if the batch size is 1.
  bool has_zero_batch() const { return has_zero_batch_; }

  // Makes the shape of a tensor, or of all outputs of a node, unknown.
  void ForgetShape(TensorRef tensor);
  void ForgetShapes(int node);

  // Returns all samples and removes them from the sampler.
  std::vector<SampleShapes> Take() { return std::move(samples_); }

 private:
  const GraphView& view_;
  const tensorflow::grappler::GrapplerItem& item_;
  const int64_t batch_size_;
  const bool inputs_vary_;
  const tensorflow::grappler::GrapplerItem stripped_;  // without weights
  OutputTypes types_;
  std::vector<SampleShapes> samples_;
  bool has_zero_batch_ = false;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_SAMPLER_H_

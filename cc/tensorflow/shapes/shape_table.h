// ShapeTable: the types and shapes of a graph's tensors, for several samples of
// the sizes of the graph's inputs.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_TABLE_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/core/ir/block.h"
#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/inferred_shapes.h"
#include "cc/tensorflow/shapes/shape_inference.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

class LayoutMap;

// The shapes of a graph's tensors in all samples. Until UseLayouts() is called,
// dimensions are in the graph's order (sequences get the height 1); afterwards,
// all shapes are [N,H,W,C].
class ShapeTable {
 public:
  // `batch_size` replaces unknown leading dimensions. `image_size` replaces the
  // other unknown dimensions of the graph's inputs. Sample 0 has these sizes.
  // `view` shows the item's graph; both must outlive the table.
  static absl::StatusOr<std::unique_ptr<ShapeTable>> Create(
      const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
      int64_t batch_size, const ImageSize& image_size);

  // Makes all functions give dimensions as [N,H,W,C], whatever the tensors'
  // layouts are. Call it only once. `layouts` must outlive the table.
  void UseLayouts(const LayoutMap& layouts);

  // Returns DT_INVALID if TensorFlow does not know the type.
  tensorflow::DataType dtype(TensorRef tensor) const {
    return inferred_.types.dtype(tensor);
  }
  // Returns whether the tensor has rank 3 in the graph.
  bool is_sequence(TensorRef tensor) const {
    return inferred_.types.IsSequence(tensor);
  }
  // Returns all tensors that have rank 3 in the graph.
  std::set<TensorRef> sequences() const;

  // Returns the tensor's shape in a sample, or null if the tensor does not have
  // a floating-point type and known dimensions. Sample 0 is the example; then
  // come the other required samples, and then the optional ones, with very
  // small and very large sizes, and with batches of inputs that broadcast. Null
  // in an optional sample means that TensorFlow rejects these sizes.
  const Shape* shape(TensorRef tensor, int sample = 0) const {
    return FindShape(inferred_.samples[sample].shapes, tensor);
  }
  int samples() const { return inferred_.samples.size(); }
  int required_samples() const { return inferred_.required_samples; }
  // Returns the elements of an integer tensor that CompleteShapes()
  // (shape_completion.h) evaluated for this sample, or null.
  const std::vector<int64_t>* integers(TensorRef tensor, int sample) const;

  // Returns whether holds(sample) is true for all samples in which the tensor
  // has a shape.
  template <typename Predicate>
  bool Always(TensorRef tensor, Predicate holds) const {
    for (int sample = 0; sample < samples(); ++sample) {
      if (shape(tensor, sample) && !holds(sample)) return false;
    }
    return true;
  }
  // Returns whether dimension `d` of a tensor is the same in all samples.
  bool fixed(TensorRef tensor, int d) const {
    return Always(tensor, [&](int sample) {
      return (*shape(tensor, sample))[d] == (*shape(tensor))[d];
    });
  }
  // Returns whether all dimensions but the first are fixed.
  bool fixed_size(TensorRef tensor) const;
  // Returns whether dimension `d` is the same in all samples and for inputs
  // without images or pixels. For example, the batch size of `x[:1]` is fixed()
  // but not known(): it is 0 if `x` has no images. The first call infers the
  // shapes for inputs without images or pixels.
  bool known(TensorRef tensor, int d);

  // Returns whether holds(shape of a, shape of b) is true for all sizes.
  template <typename Predicate>
  bool Agree(TensorRef a, TensorRef b, Predicate holds) const {
    for (int sample = 0; sample < samples(); ++sample) {
      const Shape *x = shape(a, sample), *y = shape(b, sample);
      if ((!x || !y) && (x == y || sample >= required_samples())) continue;
      if (!x || !y || !holds(*x, *y)) return false;
    }
    return true;
  }
  // Returns whether the tensors have the same shape for all sizes.
  bool same_shape(TensorRef a, TensorRef b) const;
  // Returns whether dimensions `first` to `last` (exclusive) of the tensors are
  // the same for all sizes.
  bool same_dimensions(TensorRef a, TensorRef b, size_t first,
                       size_t last) const;

  // The image size that the graph's constants require, if the graph does not
  // accept the requested size; sample 0 then has this size.
  const std::optional<ImageSize>& fitting_sizes() const {
    return inferred_.fitting_sizes;
  }
  // The samples that were added because the usual samples are all on one side
  // of some bound (see size_bounds.h). A converted graph should be compared at
  // these sizes.
  const std::vector<ShapeSample>& bound_samples() const {
    return inferred_.bound_samples;
  }

 private:
  ShapeTable(const GraphView& view,
             const tensorflow::grappler::GrapplerItem& item)
      : view_(view), item_(item) {}

  void ToChannelsLast(OutputShapes* shapes) const;

  const GraphView& view_;
  const tensorflow::grappler::GrapplerItem& item_;
  InferredShapes inferred_;
  // The shapes for inputs without images and for inputs without pixels.
  std::optional<std::vector<OutputShapes>> zero_batch_shapes_;
  const LayoutMap* layouts_ = nullptr;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SHAPE_TABLE_H_

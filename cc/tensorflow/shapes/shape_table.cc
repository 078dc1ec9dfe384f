#include "cc/tensorflow/shapes/shape_table.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cc/tensorflow/shapes/layout_map.h"
#include "cc/tensorflow/shapes/zero_batch_shapes.h"

namespace ios::tf {
using ::tensorflow::grappler::GrapplerItem;

absl::StatusOr<std::unique_ptr<ShapeTable>> ShapeTable::Create(
    const GraphView& view, const GrapplerItem& item, int64_t batch_size,
    const ImageSize& image_size) {
  std::unique_ptr<ShapeTable> table(new ShapeTable(view, item));
  TF_ASSIGN_OR_RETURN(table->inferred_,
                      InferGraphShapes(view, item, batch_size, image_size));
  return table;
}

void ShapeTable::UseLayouts(const LayoutMap& layouts) {
  layouts_ = &layouts;
  for (SampleShapes& sample : inferred_.samples) ToChannelsLast(&sample.shapes);
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
    const int ports = inferred_.types.sequences[i].size();
    for (int port = 0; port < ports; ++port) {
      if (is_sequence({i, port})) result.insert({i, port});
    }
  }
  return result;
}

const std::vector<int64_t>* ShapeTable::integers(TensorRef tensor,
                                                 int sample) const {
  const auto& integers = inferred_.samples[sample].integers;
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
    zero_batch_shapes_ =
        InferZeroBatchShapes(view_, item_, inferred_.example, inferred_.types);
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

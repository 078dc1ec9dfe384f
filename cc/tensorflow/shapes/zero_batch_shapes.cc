#include "cc/tensorflow/shapes/zero_batch_shapes.h"

#include <utility>

#include "cc/tensorflow/shapes/strip_weights.h"

namespace ios::tf {

std::vector<OutputShapes> InferZeroBatchShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    const ShapeSample& example, OutputTypes types) {
  using ::tensorflow::grappler::GrapplerItem;
  const GrapplerItem stripped = StripWeights(item, {});
  PlaceholderSizes no_placeholders;
  no_placeholders.example = no_placeholders.fill_unknown = false;
  std::vector<OutputShapes> result;
  for (const ShapeSample& sample :
       {ShapeSample{0, example.sizes}, ShapeSample{example.batch, {0, 0}}}) {
    GrapplerItem sized = stripped;
    SetInputSizes(item.graph, sample, &sized.graph);
    absl::StatusOr<SampleShapes> inferred =
        InferSampleShapes(view, sized, no_placeholders, &types);
    if (inferred.ok()) result.push_back(std::move(inferred->shapes));
  }
  return result;
}

}  // namespace ios::tf

#include "cc/tensorflow/shapes/analyzed_graph.h"

#include <utility>

namespace ios::tf {

absl::StatusOr<std::unique_ptr<AnalyzedGraph>> AnalyzedGraph::Create(
    const tensorflow::grappler::GrapplerItem& item, int64_t batch_size,
    const ImageSize& image_size) {
  std::unique_ptr<AnalyzedGraph> result(new AnalyzedGraph);
  TF_ASSIGN_OR_RETURN(result->graph_, GraphView::Create(item));
  TF_ASSIGN_OR_RETURN(
      result->shapes_,
      ShapeTable::Create(*result->graph_, item, batch_size, image_size));
  result->layouts_ = FindLayouts(result->graph_.get(), *result->shapes_);
  result->shapes_->UseLayouts(result->layouts_);
  return result;
}

}  // namespace ios::tf

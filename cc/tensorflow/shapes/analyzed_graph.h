// AnalyzedGraph: a graph with the shapes and the layouts of its tensors.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_ANALYZED_GRAPH_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_ANALYZED_GRAPH_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/layout_map.h"
#include "cc/tensorflow/shapes/shape_sample.h"
#include "cc/tensorflow/shapes/shape_table.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

class AnalyzedGraph {
 public:
  // `batch_size` and `image_size` are as for ShapeTable::Create(). The item
  // must outlive the result.
  static absl::StatusOr<std::unique_ptr<AnalyzedGraph>> Create(
      const tensorflow::grappler::GrapplerItem& item, int64_t batch_size,
      const ImageSize& image_size);

  AnalyzedGraph(const AnalyzedGraph&) = delete;
  AnalyzedGraph& operator=(const AnalyzedGraph&) = delete;

  GraphView& graph() { return *graph_; }
  const GraphView& graph() const { return *graph_; }
  // Shapes are given as [N,H,W,C], whatever the layout of the tensor in the
  // graph is.
  ShapeTable& shapes() { return *shapes_; }
  const ShapeTable& shapes() const { return *shapes_; }
  const LayoutMap& layouts() const { return layouts_; }

 private:
  AnalyzedGraph() = default;

  std::unique_ptr<GraphView> graph_;
  std::unique_ptr<ShapeTable> shapes_;
  LayoutMap layouts_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_ANALYZED_GRAPH_H_

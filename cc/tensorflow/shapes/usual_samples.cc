#include "cc/tensorflow/shapes/usual_samples.h"

#include <utility>

namespace ios::tf {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

// The number of the graph's inputs with an unknown batch size, and the number
// of its inputs with an unknown image size.
struct OpenSizes {
  int batches = 0, images = 0;
  bool heights = false, widths = false;  // as in VaryingSizes
};

// Returns whether the shape of an input depends on this size of a sample: 0 is
// the height, 1 is the width.
bool DependsOn(int size, const tensorflow::TensorShapeProto& shape) {
  ShapeSample sample;
  const auto before = WithSample(shape, sample, /*first_input=*/true);
  ++sample.sizes[size];
  const auto after = WithSample(shape, sample, /*first_input=*/true);
  return before.SerializeAsString() != after.SerializeAsString();
}

OpenSizes FindOpenSizes(const GraphDef& graph) {
  OpenSizes open;
  for (const NodeDef& node : graph.node()) {
    const auto* shape = InputShape(node);
    if (!shape) continue;
    open.batches += shape->dim(0).size() < 0;
    bool unknown = false;
    for (int d = 1; d < shape->dim_size(); ++d) {
      unknown = unknown || shape->dim(d).size() < 0;
    }
    open.images += unknown;
    open.heights = open.heights || DependsOn(0, *shape);
    open.widths = open.widths || DependsOn(1, *shape);
  }
  return open;
}

}  // namespace

void AddVariedSizes(const ImageSize& image_size,
                    std::vector<ShapeSample>* samples) {
  const auto [height, width] = image_size;
  // Batch and image size are not both large, because graphs count pixels in 32
  // bits. Most of these sizes are not multiples of common strides, so they
  // reveal sizes that the network rounds. 32 * 331 and 32 * 337 still do so
  // after five strides of 2. If an image has few rows or columns, a slice such
  // as x[:, :100] contains all of them.
  for (ImageSize sizes : {ImageSize{32 * 331, 32 * 337},
                          {1, 2},
                          {2, 1},
                          {3, 75},
                          {58, 3},
                          {5, 130},
                          {102, 5},
                          {9, 31},
                          {37, 8},
                          {height + 1, width + 5}}) {
    samples->push_back({2, sizes, /*optional=*/true});
  }
}

VaryingSizes FindVaryingSizes(const GraphDef& graph) {
  const OpenSizes open = FindOpenSizes(graph);
  return {open.batches > 0, open.images > 0, open.heights, open.widths};
}

std::vector<ShapeSample> UsualSamples(const GraphDef& graph, int64_t batch_size,
                                      const ImageSize& image_size) {
  const auto [height, width] = image_size;
  const OpenSizes open = FindOpenSizes(graph);
  const ShapeSample example = {batch_size, image_size};
  std::vector<ShapeSample> samples = {
      example, {3, {height + 96, width + 32}}, {5, {height + 32, width + 160}}};
  if (batch_size != 1 && open.batches > 0) {
    samples.push_back({1, example.sizes});
  }
  if (open.batches > 0) {
    samples.push_back({10007, example.sizes, /*optional=*/true});
  }
  if (open.images > 0) AddVariedSizes(image_size, &samples);
  if (open.images > 1) {
    // Samples in which the first input is larger than the others, has another
    // orientation (portrait or landscape), or broadcasts.
    for (const auto& [sizes, next] :
         {std::pair<ImageSize, ImageSize>{{height + 38, width + 1},
                                          {height, width + 19}},
          {{30, 41}, {41, 30}},
          {{1, 1}, {30, 41}},
          {{30, 41}, {1, 1}}}) {
      samples.push_back(
          {2, sizes, /*optional=*/true, /*next_batch=*/2, /*next_sizes=*/next});
    }
  }
  if (open.batches > 1) {
    samples.push_back({7, example.sizes, /*optional=*/true, /*next_batch=*/1});
  }
  return samples;
}

void UseFittingSizes(const ImageSize& sizes,
                     std::vector<ShapeSample>* samples) {
  const ImageSize example = samples->front().sizes;
  std::vector<ShapeSample> more;
  for (ShapeSample& sample : *samples) {
    if (sample.optional && sample.sizes != example) continue;
    if (!sample.optional) {
      more.push_back(sample);
      more.back().optional = true;
    }
    sample.sizes = sizes;
  }
  // Sizes near the fitting size reveal strides and pools, which round; sizes of
  // 1 reveal dimensions that broadcast.
  const auto [height, width] = sizes;
  for (const ImageSize& near : {ImageSize{height - 1, width - 1},
                                {height + 1, width + 1},
                                {height - 1, width},
                                {height, width - 1},
                                {height, 1},
                                {1, width},
                                {1, 1}}) {
    if (near[0] > 0 && near[1] > 0) more.push_back({2, near, true});
  }
  samples->insert(samples->end(), more.begin(), more.end());
}

}  // namespace ios::tf

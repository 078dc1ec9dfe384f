// Probes: sample sizes of a graph's inputs for which shapes are inferred. A
// dimension in a single probe is just an example.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_PROBES_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_PROBES_H_

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// A height and a width.
using ImageSize = std::array<int64_t, 2>;
// The image size that most networks are designed for.
inline constexpr ImageSize kUsualImageSize = {224, 224};

// Sizes in place of the unknown dimensions of the graph's inputs.
struct Probe {
  int64_t batch = 1;
  ImageSize sizes = {1, 1};  // height and width, for the other dimensions
  // If TensorFlow cannot infer a shape in an optional probe, the probe says
  // nothing about that shape.
  bool optional = false;
  // Sizes of all inputs except the first; 0 means the same as the first.
  int64_t next_batch = 0;
  ImageSize next_sizes = {0, 0};
};

// Identifies a bound (size_bounds.h) by its node and its number within the
// node. If `repeats`, the node changes at every whole number of a quotient, not
// at one size only.
struct BoundKey {
  int node = -1;
  int index = 0;
  bool repeats = false;
  bool operator<(const BoundKey& o) const {
    return std::tie(node, index, repeats) <
           std::tie(o.node, o.index, o.repeats);
  }
};

// The distance of sizes from each bound: negative on one side, positive on the
// other. For a bound that repeats, the value is the quotient itself.
using BoundDistances = std::map<BoundKey, double>;

struct Probes {
  std::vector<Probe> probes;
  bool inputs_vary = false;  // in batch or size
  bool sizes_vary = false;
};

// Returns the probes of a graph: an example first, optional probes last.
//
// A dimension that differs between probes is not fixed. The batches include 1
// because dimensions of 1 broadcast and squeeze. Sizes of required probes are
// multiples of 32, which networks for images of any size accept. Optional
// probes have small and large sizes, which some networks reject. The optional
// probes reveal sizes that are rounded to multiples, and slices that end at a
// number or at the end of their tensor, whichever comes first.
Probes MakeProbes(const tensorflow::GraphDef& graph, int64_t batch_size,
                  const ImageSize& image_size);

// Adds optional probes for unknown input sizes, or for sizes that depend on
// values.
void AddSizes(const ImageSize& image_size, std::vector<Probe>* probes);

// Gives required probes `sizes`, for a graph that takes images of few sizes
// only. The previous sizes and sizes near `sizes` become optional probes.
void UseSizes(const ImageSize& sizes, std::vector<Probe>* probes);

// Returns the declared shape of a graph input with at least one dimension, or
// null.
const tensorflow::TensorShapeProto* InputShape(const tensorflow::NodeDef& node);

// Sets the sizes of the inputs of `graph` to a probe's sizes in `sized`, a copy
// of `graph` whose other nodes may differ.
void SetInputSizes(const tensorflow::GraphDef& graph, const Probe& probe,
                   tensorflow::GraphDef* sized);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_PROBES_H_

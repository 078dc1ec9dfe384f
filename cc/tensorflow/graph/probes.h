// The sizes of a graph's inputs for which its shapes are inferred: what only
// one of them says of a dimension is no more than an example.
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
// Most networks for images were made for this one.
inline constexpr ImageSize kUsualImageSize = {224, 224};

// Sizes in place of the unknown dimensions of the graph's inputs.
struct Probe {
  int64_t batch = 1;
  ImageSize sizes = {1, 1};  // of the others, in turn
  // Says nothing about what TensorFlow cannot infer for it.
  bool optional = false;
  // Of all inputs but the first; 0: the same.
  int64_t next_batch = 0;
  ImageSize next_sizes = {0, 0};
};

// Which bound of a node: the node, its number among the node's, and whether the
// node changes at each whole number of a quotient, not at one size only.
struct BoundKey {
  int node = -1;
  int index = 0;
  bool repeats = false;
  bool operator<(const BoundKey& o) const {
    return std::tie(node, index, repeats) <
           std::tie(o.node, o.index, o.repeats);
  }
};

// How far sizes are from bounds: below zero on one side of it, above on the
// other; quotients themselves where the bound repeats.
using BoundDistances = std::map<BoundKey, double>;

struct Probes {
  std::vector<Probe> probes;
  bool inputs_vary = false;  // their batches or sizes
  bool sizes_vary = false;
};

// The probes of a graph, an example first, those that are optional last.
//
// A dimension that differs between probes is not fixed. 1 is among the batches
// as dimensions of 1 broadcast and squeeze. Sizes are multiples of 32, which
// networks for images of any size take; small and large ones, which not all
// take, show what rounds to multiples, and where a slice ends at a number or at
// the end of its tensor, whichever comes first.
Probes MakeProbes(const tensorflow::GraphDef& graph, int64_t batch_size,
                  const ImageSize& image_size);

// Adds those for sizes of inputs that are not known, or of what depends on
// values.
void AddSizes(const ImageSize& image_size, std::vector<Probe>* probes);

// Where a graph takes images of few sizes only, gives those that are required
// one that it takes; the others are tried, too, and those near it, which it may
// take.
void UseSizes(const ImageSize& sizes, std::vector<Probe>* probes);

// The declared shape of an input of the graph with dimensions; or null.
const tensorflow::TensorShapeProto* InputShape(const tensorflow::NodeDef& node);

// Gives the inputs of `graph` a probe's sizes in `sized`, a copy whose other
// nodes may differ.
void SetInputSizes(const tensorflow::GraphDef& graph, const Probe& probe,
                   tensorflow::GraphDef* sized);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_PROBES_H_

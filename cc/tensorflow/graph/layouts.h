// Layouts: which tensors of a graph have their channels first. Blocks are
// always [N,H,W,C]; the importer sees the others through their Transposes.
// (Those of rank 3 it sees through the nodes that add and remove a dimension.)
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUTS_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUTS_H_

#include <optional>
#include <set>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"

namespace ios::tf {

// The [N,C,H,W] tensors: those of nodes whose data format says so, and what
// elementwise nodes and the usual Transposes connect them with. Where nothing
// says it, a tensor is [N,H,W,C]. Asks for shapes: call before
// SetChannelsFirst().
std::set<TensorRef> FindChannelsFirst(GraphIndex* graph);

// The order that a Transpose gives to an image's dimensions.
enum class Permutation { kNone, kToChannelsFirst, kToChannelsLast, kOther };
Permutation PermutationOf(GraphIndex* graph, int transpose);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUTS_H_

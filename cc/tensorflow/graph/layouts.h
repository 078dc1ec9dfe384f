// Finds the tensors of a graph that have their channels first. Blocks are
// always [N,H,W,C], so the importer looks through Transposes to and from
// [N,C,H,W]. For tensors of rank 3, the importer looks through the nodes that
// add and remove a dimension.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUTS_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUTS_H_

#include <optional>
#include <set>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"

namespace ios::tf {

// Returns the [N,C,H,W] tensors: those of nodes with this data format, and
// tensors that elementwise nodes and the usual Transposes connect to them. A
// tensor is [N,H,W,C] if nothing indicates its layout. The function reads
// shapes, so call it before SetChannelsFirst().
std::set<TensorRef> FindChannelsFirst(GraphIndex* graph);

// The order that a Transpose gives to an image's dimensions.
enum class Permutation { kNone, kToChannelsFirst, kToChannelsLast, kOther };
Permutation PermutationOf(GraphIndex* graph, int transpose);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUTS_H_

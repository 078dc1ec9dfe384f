// Importer: TensorFlow nodes become operators, as fusion.h and regions.h take
// them on. What is not recognised stays TensorFlow's.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORTER_H_
#define IOS_TF_CC_TENSORFLOW_IMPORTER_H_

#include <map>
#include <string>
#include <vector>

#include "cc/core/block.h"
#include "cc/tensorflow/graph_index.h"

namespace ios::tf {

// An operator and the nodes it stands for.
struct ImportedOperator {
  Operator op;  // without inputs: they are the tensors below
  std::vector<TensorRef> inputs;
  TensorRef output;
  std::vector<int> nodes;
  std::vector<std::vector<float>> weights;  // WeightShapes() order
  // Only while operators are fused: a Reshape between [N,H,W,C] and [..., C],
  // which is no operator of a block.
  bool reshape = false;
};

// Why a node of a recognised type is left to TensorFlow.
struct Refusal {
  int node;
  std::string reason;
};

// The operators of all nodes of known type, one per node (and output of a
// split), nothing fused; in a topological order. Adds to `refusals` the
// convolutions it cannot take.
std::vector<ImportedOperator> ImportNodes(GraphIndex* graph,
                                          std::vector<Refusal>* refusals);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORTER_H_

// Importer: TensorFlow nodes become operators, as fusion.h and regions.h take
// them on. What is not recognised stays TensorFlow's.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/weight.h"

namespace ios::tf {

// Input 0 `compares` to `than` ? first : second. The others are numbers, or
// else the next inputs.
struct Selection {
  std::string compares;  // "Greater", "GreaterEqual", "Less" or "LessEqual"
  float than = 0.0f;
  std::optional<float> first, second;

  bool IsKnown() const;
  bool Holds(double x) const;
};

// An operator and the nodes it stands for.
struct ImportedOperator {
  // Nodes that compute nothing are followed while operators are fused; they are
  // no operators of a block.
  enum class Kind {
    kOperator,
    kReshape,  // between [N,H,W,C] and [..., C]
    kLayout,   // from one Layout to another
    kCast,     // between floating-point types
    kSelect,   // one of two values by a comparison: a part of an activation
  };
  Kind kind = Kind::kOperator;
  // Without inputs: they are the tensors below. Only its name, if the kind is
  // another one.
  Operator op;
  DataType dtype = DataType::kFloat32;  // of inputs and output
  std::vector<TensorRef> inputs;
  Layout from = Layout::kChannelsLast;  // kReshape: of what the node reads
  Selection selection;                  // kSelect
  TensorRef output;
  // Whether the graph has the output in another shape, of as many elements;
  // nobody but operators reads it.
  bool reshaped = false;
  std::vector<int> nodes;
  std::vector<Weight> weights;  // WeightShapes() order
};

// The name of this node's operator: the node's, or that of a convolution before
// constant folding renamed it. (Folding multiplies the factors of a batch norm
// into the weights, "CONVOLUTION/merged_input" from then on, and gives the
// convolution the multiplication's name.)
std::string OperatorName(const GraphIndex& graph, int node);

// Why a node of a recognised type is left to TensorFlow.
struct Refusal {
  int node;
  std::string reason;
};

// The operators of all nodes of known type, one per node (and output of a
// split), nothing fused; in a topological order. Adds to `refusals` the
// convolutions it cannot take.
std::vector<ImportedOperator> ImportNodes(GraphIndex* graph,
                                          const Placement& placement,
                                          std::vector<Refusal>* refusals);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_

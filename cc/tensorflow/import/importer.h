// Importer: turns TensorFlow nodes into operators, which fusion.h then combines
// and regions.h groups into regions. Nodes that the importer does not recognise
// are left to TensorFlow.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/reason.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/weight.h"
#include "cc/tensorflow/shapes/analyzed_graph.h"

namespace ios::tf {

// A choice between two values by a comparison, for example (input 0 > than) ?
// first : second; `compares` is the comparison. If `first` or `second` is
// nullopt, it is the next input of the operator.
struct Selection {
  std::string compares;  // "Greater", "GreaterEqual", "Less" or "LessEqual"
  float than = 0.0f;
  std::optional<float> first, second;

  bool IsKnown() const;
  bool Holds(double x) const;
};

// An operator and the TensorFlow nodes that it replaces.
struct ImportedOperator {
  // Only kOperator becomes an operator of a block. Nodes of the other kinds are
  // kept during fusion, because they connect operators.
  enum class Kind {
    kOperator,
    kReshape,  // between [N,H,W,C] and [..., C]
    kLayout,   // from one Layout to another
    kCast,     // between floating-point types
    kSelect,   // one of two values by a comparison: a part of an activation
  };
  Kind kind = Kind::kOperator;
  // The operator. Its member Operator::inputs is empty, because the member
  // `inputs` below has the tensors. For other kinds than kOperator, only the
  // name is set.
  Operator op;
  DataType dtype = DataType::kFloat32;  // of inputs and output
  std::vector<TensorRef> inputs;
  Layout from = Layout::kChannelsLast;  // kReshape: layout of its input
  Selection selection;                  // kSelect
  TensorRef output;
  // True if the tensor in the graph has another shape than the operator's
  // output, with the same number of elements. Then only operators may read the
  // output.
  bool reshaped = false;
  std::vector<int> nodes;
  std::vector<Weight> weights;  // WeightShapes() order
};

// Returns the name of this node's operator. This is the node's name or, for a
// convolution that constant folding has renamed, its earlier name. (When
// TensorFlow folds a batch norm into a convolution, the convolution gets the
// name of the multiplication, and the new weights are named
// "CONVOLUTION/merged_input".)
std::string OperatorName(const GraphView& graph, int node);

// A node that is left to TensorFlow, and why.
struct Refusal {
  int node;
  Reason reason;
  std::string text;
};

// Returns whether the importer has a handler for nodes of this type.
bool IsKnownType(const std::string& op);

// Returns the operators of all nodes that have a handler, in a topological
// order, before fusion. A node becomes one operator, but a split becomes one
// slice per output. Adds nodes that the handlers refuse to `refusals`.
std::vector<ImportedOperator> ImportNodes(AnalyzedGraph* analyzed,
                                          const DevicePlacement& placement,
                                          std::vector<Refusal>* refusals);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_

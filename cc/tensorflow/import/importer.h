// Importer: turns TensorFlow nodes into operators, which fusion.h and regions.h
// process further. Nodes that it does not recognise are left to TensorFlow.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/weight.h"
#include "cc/tensorflow/shapes/analyzed_graph.h"

namespace ios::tf {

// Computes (input 0 `compares` to `than`) ? first : second. If `first` or
// `second` is not a number, the next input takes its place.
struct Selection {
  std::string compares;  // "Greater", "GreaterEqual", "Less" or "LessEqual"
  float than = 0.0f;
  std::optional<float> first, second;

  bool IsKnown() const;
  bool Holds(double x) const;
};

// An operator and the nodes that it stands for.
struct ImportedOperator {
  // Nodes of the other kinds guide the fusion of operators. They do not become
  // operators of a block.
  enum class Kind {
    kOperator,
    kReshape,  // between [N,H,W,C] and [..., C]
    kLayout,   // from one Layout to another
    kCast,     // between floating-point types
    kSelect,   // one of two values by a comparison: a part of an activation
  };
  Kind kind = Kind::kOperator;
  // The operator's own `inputs` are empty: the field `inputs` below has the
  // tensors. For other kinds than kOperator, only the name is set.
  Operator op;
  DataType dtype = DataType::kFloat32;  // of inputs and output
  std::vector<TensorRef> inputs;
  Layout from = Layout::kChannelsLast;  // kReshape: layout of its input
  Selection selection;                  // kSelect
  TensorRef output;
  // True if the graph has the output in another shape with the same number of
  // elements. Then only operators read the output.
  bool reshaped = false;
  std::vector<int> nodes;
  std::vector<Weight> weights;  // WeightShapes() order
};

// Returns the name of this node's operator. This is the node's name or, for a
// convolution that constant folding has renamed, its earlier name. (Folding
// multiplies the factors of a batch norm into the weights. It names the weights
// "CONVOLUTION/merged_input", and gives the convolution the multiplication's
// name.)
std::string OperatorName(const GraphView& graph, int node);

// The reason why a node of a recognised type is left to TensorFlow.
struct Refusal {
  int node;
  std::string reason;
};

// Returns the operators of all nodes of known type in a topological order,
// without fusion. A node gives one operator, and a split gives one per output.
// Adds convolutions that it cannot import to `refusals`.
std::vector<ImportedOperator> ImportNodes(AnalyzedGraph* analyzed,
                                          const DevicePlacement& placement,
                                          std::vector<Refusal>* refusals);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_IMPORTER_H_

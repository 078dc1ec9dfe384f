#include "cc/tensorflow/import/importer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {
namespace {

const HandlerTable& Handlers() {
  static const auto* const kHandlers = [] {
    auto* const all = new HandlerTable;
    for (const auto& family :
         {ActivationHandlers, ConvolutionHandlers, ElementwiseHandlers,
          PartHandlers, PoolHandlers, ResizeHandlers}) {
      all->merge(family());
    }
    return all;
  }();
  return *kHandlers;
}

// Returns true if the emitted operators accept input sizes for which TensorFlow
// refuses to run the node.
bool AcceptsInvalidSizes(AnalyzedGraph* analyzed, int i,
                         const std::vector<ImportedOperator>& emitted) {
  const GraphView& graph = analyzed->graph();
  ShapeTable& shapes = analyzed->shapes();
  const std::string& type = graph.node(i).op();
  if (!Reshapes(graph.node(i)) && type != "Slice" && type != "BroadcastTo" &&
      type != "Conv2DBackpropInput") {
    return false;  // does not check the number of images or cells
  }
  for (const ImportedOperator& op : emitted) {
    const Shape* y = shapes.shape(op.output);
    if (!y) continue;
    // The output has a constant number of images, but the inputs may have any
    // number. TensorFlow reports an error for inputs with another number.
    if (shapes.known(op.output, 0) &&
        std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorRef t) {
          return shapes.fixed(t, 0) && !shapes.known(t, 0);
        })) {
      return true;
    }
    // The same applies to rows and columns. For a reshape, TensorFlow only
    // checks the number of cells, so both rows and columns must be constant.
    for (const TensorRef& t : op.inputs) {
      const Shape* x = shapes.shape(t);
      if (!x || x->size() != 4) continue;
      const bool counts = Reshapes(graph.node(i));
      for (int d : {1, 2}) {
        if (y->size() != 4) {
          if (shapes.fixed(t, d) && !shapes.known(t, d)) return true;
        } else if (!shapes.known(t, d) && shapes.known(op.output, d) &&
                   (!counts || shapes.known(op.output, 3 - d))) {
          return true;
        }
      }
    }
  }
  return false;
}

}  // namespace

bool Selection::IsKnown() const {
  return compares == "Greater" || compares == "GreaterEqual" ||
         compares == "Less" || compares == "LessEqual";
}

bool Selection::Holds(double x) const {
  if (compares == "Greater") return x > than;
  if (compares == "GreaterEqual") return x >= than;
  return compares == "Less" ? x < than : x <= than;
}

std::string OperatorName(const GraphView& graph, int node) {
  const tensorflow::NodeDef& def = graph.node(node);
  if (absl::StrContains(def.op(), "Conv") && graph.inputs(node).size() > 1) {
    absl::string_view filter = graph.node(graph.Input(node, 1).node).name();
    if (absl::ConsumeSuffix(&filter, "/merged_input")) {
      return std::string(filter);
    }
  }
  return def.name();
}

bool IsKnownType(const std::string& op) { return Handlers().count(op) > 0; }

std::vector<ImportedOperator> ImportNodes(AnalyzedGraph* analyzed,
                                          const DevicePlacement& placement,
                                          std::vector<Refusal>* refusals) {
  std::vector<ImportedOperator> result;
  const GraphView& graph = analyzed->graph();
  ImportContext in(analyzed, placement);
  for (int i : graph.order()) {
    if (graph.constant(i) || graph.conditional(i) || graph.passthrough(i) ||
        graph.fed(i) || graph.variable(i) || !graph.live(i)) {
      continue;
    }
    const std::string& op = graph.node(i).op();
    const auto handler = Handlers().find(op);
    if (handler == Handlers().end()) continue;
    Result imported = in.Enter(i);
    if (imported.ok()) imported = handler->second(in, i);
    std::vector<ImportedOperator> emitted = in.TakeEmitted();
    if (imported.ok() && AcceptsInvalidSizes(analyzed, i, emitted)) {
      imported = Refuse(
          Reason::kRejectedSizes,
          "TensorFlow rejects some input sizes that the engine would accept");
    }
    if (imported.ok()) {
      std::move(emitted.begin(), emitted.end(), std::back_inserter(result));
    } else {
      refusals->push_back(
          {i, ReasonOf(imported), std::string(imported.message())});
    }
  }
  for (ImportedOperator& op : result) {
    const std::vector<int>& more = graph.aliases(op.output.node);
    op.nodes.insert(op.nodes.end(), more.begin(), more.end());
  }
  return result;
}

}  // namespace ios::tf

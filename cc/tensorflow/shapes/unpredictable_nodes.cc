#include "cc/tensorflow/shapes/unpredictable_nodes.h"

#include <algorithm>
#include <vector>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/one_of.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"

namespace ios::tf {
namespace {

int OutputCount(const tensorflow::NodeDef& node) {
  const tensorflow::OpDef* op = nullptr;
  tensorflow::DataTypeVector types;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok() ||
      !tensorflow::OutputTypesForNode(node, *op, &types).ok()) {
    return 0;
  }
  return types.size();
}

}  // namespace

void AddUnpredictableNodes(const GraphView& view,
                           std::set<std::string>* nodes) {
  // The kinds of values that nodes compute: data; sizes that can be predicted
  // from samples; numbers that depend on sizes but cannot be predicted.
  enum class Of { kData, kSizes, kUnpredictable };
  std::vector<Of> computes(view.size(), Of::kData);
  for (int i : view.order()) {
    const std::string& op = view.node(i).op();
    if (OneOf(op, {"Shape", "ShapeN", "Size"})) {
      computes[i] = Of::kSizes;
      continue;
    }
    const std::vector<TensorRef>& inputs = view.inputs(i);
    // For these nodes, only the first input is data. The other inputs give the
    // shape of the result.
    const bool only_first =
        OneOf(op, {"Reshape", "StridedSlice", "Slice", "Gather", "GatherV2",
                   "SplitV", "Tile", "BroadcastTo", "Transpose"});
    Of worst = Of::kData;
    bool all = true;
    for (size_t k = 0; k < (only_first ? 1 : inputs.size()); ++k) {
      const Of here = computes[inputs[k].node];
      worst = std::max(worst, here);
      all = all &&
            (here != Of::kData || view.node(inputs[k].node).op() == "Const");
    }
    if (worst == Of::kData ||
        OneOf(op, {"Fill", "OneHot", "ZerosLike", "OnesLike", "Rank", "Enter",
                   "Exit", "NextIteration", "LoopCond"})) {
      continue;
    }
    const auto type = OutputType(view.node(i));
    if (!type) continue;
    const bool whole =
        tensorflow::DataTypeIsInteger(*type) || *type == tensorflow::DT_BOOL;
    if (!whole && (!all || !tensorflow::DataTypeIsFloating(*type))) continue;
    // Other nodes may have bounds for which no samples are chosen.
    const bool predictable =
        only_first ||
        OneOf(op,
              {"Split",       "Unpack",   "Pack",        "Concat",   "ConcatV2",
               "Cast",        "Squeeze",  "ExpandDims",  "Identity", "Add",
               "AddV2",       "Sub",      "Mul",         "Neg",      "Div",
               "RealDiv",     "FloorDiv", "TruncateDiv", "FloorMod", "Mod",
               "TruncateMod", "Floor",    "Ceil",        "Round",    "Rint",
               "Prod",        "Range",    "Switch",      "IdentityN"});
    if (predictable && (worst == Of::kSizes || !whole)) {
      computes[i] = worst;
    } else if (whole && OutputCount(view.node(i)) == 1) {
      nodes->insert(view.node(i).name());
    } else {
      computes[i] = Of::kUnpredictable;
    }
  }
}

}  // namespace ios::tf

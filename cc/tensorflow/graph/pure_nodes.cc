#include "cc/tensorflow/graph/pure_nodes.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "cc/tensorflow/names.h"
#include "tensorflow/core/framework/op.h"

namespace ios::tf {

using ::tensorflow::NodeDef;

bool IsPure(const NodeDef& node) {
  const tensorflow::OpDef* op = nullptr;
  return tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok() &&
         !op->is_stateful() &&
         std::none_of(op->attr().begin(), op->attr().end(), [](const auto& a) {
           return a.type() == "func" || a.type() == "list(func)";
         });
}

bool IsEvaluable(const NodeDef& node) {
  static const auto* const kOthers = new std::unordered_set<std::string>{
      "Placeholder",   "PlaceholderV2", "PlaceholderWithDefault",
      "_Arg",          "_Retval",       "_DeviceArg",
      "_DeviceRetval", "Switch",        "Merge",
      "Enter",         "Exit",          "NextIteration",
      "LoopCond",      kRegion,         "IosStageLatency"};
  return IsPure(node) && kOthers->count(node.op()) == 0;
}

}  // namespace ios::tf

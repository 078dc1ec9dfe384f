#include "cc/tensorflow/partition/precision.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "cc/engine/devices.h"
#include "cc/tensorflow/graph/annotations.h"

namespace ios::tf {
namespace {

std::atomic<bool>& Computes() {
  static std::atomic<bool> computes([] {
    const StatusOr<bool> has = HasBFloat16(kCpu);
    return has.ok() && *has;
  }());
  return computes;
}

// Returns whether a conversion has marked the operator's output node or, if a
// pass of TensorFlow has replaced this node, another node of the operator.
bool IsMarked(const GraphView& graph, const ImportedOperator& op) {
  const auto is_marked = [&](int i) {
    return AnnotatedPrecision(graph.node(i)) == DataType::kBFloat16;
  };
  if (IsAnnotated(graph.node(op.output.node))) return is_marked(op.output.node);
  return std::any_of(op.nodes.begin(), op.nodes.end(), is_marked);
}

}  // namespace

bool ComputesBFloat16() { return Computes(); }

void SetComputesBFloat16(bool computes) { Computes() = computes; }

absl::StatusOr<Precision> PrecisionFromString(const std::string& text) {
  if (text != "float32" && text != "bfloat16" && text != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("precision must be \"float32\", \"bfloat16\" or "
                     "\"auto\", not '",
                     text, "'"));
  }
  if (text == "bfloat16" && !ComputesBFloat16()) {
    return absl::InvalidArgumentError(
        "precision is \"bfloat16\", but this processor does not have bfloat16 "
        "arithmetic; use \"auto\" or \"float32\"");
  }
  Precision precision;
  if (text != "float32" && ComputesBFloat16()) {
    precision.dtype = DataType::kBFloat16;
  }
  return precision;
}

void SetPrecision(const GraphView& graph, const DevicePlacement& placement,
                  const Precision& precision,
                  std::vector<ImportedOperator>* operators) {
  const bool wants = precision.dtype == DataType::kBFloat16;
  for (ImportedOperator& op : *operators) {
    if (op.dtype == DataType::kBFloat16 ||
        placement.DeviceOf(graph.node(op.output.node)) != kCpu) {
      continue;
    }
    const bool is_wanted =
        wants && precision.float32_operators.count(op.op.name) == 0;
    const bool is_narrow =
        op.op.type != OperatorType::kSoftmax &&
        (is_wanted || (IsMarked(graph, op) && ComputesBFloat16()));
    op.dtype = is_narrow ? DataType::kBFloat16 : DataType::kFloat32;
  }
}

}  // namespace ios::tf

#include "cc/engine/shared_names.h"

#include <nlohmann/json.hpp>

#include "cc/core/document.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/limits.h"
#include "cc/core/ops/activation.h"
#include "cc/core/ops/attribute_values.h"
#include "cc/core/ops/definition.h"
#include "cc/core/reason.h"

namespace ios {
namespace {

using nlohmann::json;

json OperatorTypes() {
  return {
#define IOS_OPERATOR(Name) ToString(OperatorType::k##Name),
#include "cc/core/ops/operators.def"
  };
}

json Activations() {
  json activations = json::object();
  for (const Activation::Properties& row : Activation::kAll) {
    json& defaults = activations[row.name] = json::array();
    if (row.parameters > 0) defaults.push_back(row.alpha);
    if (row.parameters > 1) defaults.push_back(row.beta);
  }
  return activations;
}

json Algorithms() {
  json names = json::array();
  for (const auto& [algorithm, name] : kAlgorithmNames) names.push_back(name);
  return names;
}

json Reasons() {
  return {
#define IOS_REASON(number, Name, slug) {ReasonCode(Reason::k##Name), slug},
#include "cc/core/reasons.def"
  };
}

}  // namespace

std::string SharedNamesJson() {
  return json{
      {"version", kFormatVersion},
      {"limits",
       {{"document_bytes", kMaxDocumentBytes},
        {"document_depth", kMaxDocumentDepth},
        {"operators", kMaxOperators},
        {"dimension", kMaxDimension}}},
      {"data_types",
       {ToString(DataType::kFloat32), ToString(DataType::kFloat16),
        ToString(DataType::kBFloat16)}},
      {"operator_types", OperatorTypes()},
      {"activations", Activations()},
      {"algorithms", Algorithms()},
      {"reasons", Reasons()},
  }
      .dump();
}

}  // namespace ios

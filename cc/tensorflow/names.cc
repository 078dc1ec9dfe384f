#include "cc/tensorflow/names.h"

#include <nlohmann/json.hpp>

#include "cc/core/document.h"

namespace ios::tf {

std::string NamesJson() {
  return nlohmann::json{
      {"annotations",
       {kBatchAttr, kCallersAttr, kStageAttr, kStreamAttr, kMergeAttr,
        kMicroBatchesAttr, kAlgorithmAttr, kPrecisionAttr}},
      {"shape_of_weight", kShapeOfWeight},
      {"type_of_variable", kTypeOfVariable},
      {"shape_of_variable", kShapeOfVariable},
      {"merged", kMerged},
      {"optimizer", kOptimizer},
      {"region", kRegion},
      {"passes", {kRemappingPass, kLayoutPass, kArithmeticPass, kSubgraphPass}},
      {"no_shapes", kNoShapes},
      {"pending", kPending},
      {"version", kFormatVersion},
  }
      .dump();
}

}  // namespace ios::tf

#include "cc/core/ir/problem.h"

#include "cc/core/ir/block_json.h"
#include "cc/core/transforms/merge.h"

namespace ios {

StatusOr<std::string> ProblemJson(const Block& block) {
  IOS_RETURN_IF_ERROR(Validate(block));
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
  std::vector<int64_t> flops;
  std::vector<std::string> keys;
  std::vector<std::vector<Shape>> weights;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    const std::vector<Shape> inputs = InputShapes(block, shapes, i);
    flops.push_back(Flops(op, inputs, shapes[i]));
    weights.push_back(WeightShapes(op, inputs[0]));
    nlohmann::json key = OperatorToJsonValue(op);
    key.erase("name");
    key["inputs"] = inputs;
    keys.push_back(key.dump());
  }
  const nlohmann::json problem = {{"version", kFormatVersion},
                                  {"signature", Signature(block)},
                                  {"block", BlockToJsonValue(block)},
                                  {"shapes", shapes},
                                  {"flops", flops},
                                  {"operator_keys", keys},
                                  {"merge_classes", MergeClasses(block)},
                                  {"weight_shapes", weights}};
  return problem.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ios

#include "cc/core/ir/problem.h"

#include <algorithm>

#include "cc/core/document.h"
#include "cc/core/ir/block_json.h"
#include "cc/core/ir/merge.h"

namespace ios {
namespace {

// Winograd's algorithm is measured only for convolutions with at least this
// many channels and filters. For fewer channels or filters, its transforms take
// more time than they save. The algorithm kRows is measured only for at least
// this many pixels.
constexpr int64_t kLeastSize = 8;

bool IsWorthTrying(const Operator& op, DataType dtype, Algorithm algorithm,
                   const Shape& input, const Shape& output) {
  if (!MayCompute(op, algorithm)) return false;
  // Only float32 has several kernels for matrix products and for Winograd's
  // algorithm to choose from.
  if (dtype != DataType::kFloat32 && algorithm != Algorithm::kRows) {
    return false;
  }
  const int64_t pixels = NumElements({output.begin(), output.end() - 1});
  switch (algorithm) {
    case Algorithm::kGemm:
      return true;
    case Algorithm::kRows:
      return pixels >= kLeastSize && op.groups == input.back();
    default:
      return std::min(op.filters, input.back()) >= kLeastSize;
  }
}

}  // namespace

std::vector<std::vector<Algorithm>> AlgorithmsOf(
    const Block& block, const std::vector<Shape>& shapes) {
  std::vector<std::vector<Algorithm>> result(block.operators.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const Shape input = InputShapes(block, shapes, i)[0];
    for (Algorithm algorithm : {Algorithm::kWinograd2, Algorithm::kWinograd4,
                                Algorithm::kGemm, Algorithm::kRows}) {
      if (IsWorthTrying(block.operators[i], block.dtype, algorithm, input,
                        shapes[i])) {
        result[i].push_back(algorithm);
      }
    }
  }
  return result;
}

StatusOr<std::string> ProblemJson(const Block& block) {
  IOS_RETURN_IF_ERROR(Validate(block));
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
  std::vector<int64_t> flops;
  std::vector<std::string> keys;
  std::vector<std::vector<Shape>> weights;
  std::vector<std::vector<const char*>> algorithms;
  for (const std::vector<Algorithm>& of_one : AlgorithmsOf(block, shapes)) {
    algorithms.emplace_back();
    for (Algorithm one : of_one) algorithms.back().push_back(ToString(one));
  }
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    const std::vector<Shape> inputs = InputShapes(block, shapes, i);
    flops.push_back(Flops(op, inputs, shapes[i]));
    weights.push_back(WeightShapes(op, inputs[0]));
    nlohmann::json key = OperatorToJsonValue(op);
    key.erase("name");
    key["inputs"] = inputs;
    // The types of tensors are a part of the key if they differ from the
    // block's type, because the task then converts tensors, which takes time.
    std::vector<DataType> dtypes = {DtypeOf(block, static_cast<int>(i))};
    for (int ref : op.inputs) dtypes.push_back(DtypeOf(block, ref));
    if (std::any_of(dtypes.begin(), dtypes.end(),
                    [&](DataType dtype) { return dtype != block.dtype; })) {
      key["dtypes"] = DtypesToJsonValue(dtypes);
    }
    keys.push_back(key.dump());
  }
  const nlohmann::json problem = {{"version", kFormatVersion},
                                  {"signature", Signature(block)},
                                  {"block", BlockToJsonValue(block)},
                                  {"shapes", shapes},
                                  {"flops", flops},
                                  {"operator_keys", keys},
                                  {"merge_classes", MergeClasses(block)},
                                  {"algorithms", algorithms},
                                  {"weight_shapes", weights}};
  return problem.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ios

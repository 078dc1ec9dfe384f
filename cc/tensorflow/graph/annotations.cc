#include "cc/tensorflow/graph/annotations.h"

#include <algorithm>
#include <string>

#include "cc/core/limits.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {

void Annotate(const std::vector<StagePlace>& places,
              tensorflow::NodeDef* node) {
  // Writes booleans as integers: tf2onnx cannot copy a list of booleans.
  std::vector<int64_t> batches, callers, stages, streams, merges, micro_batches;
  std::vector<std::string> algorithms;
  bool has_callers = false, is_split = false, is_direct = true;
  for (const StagePlace& place : places) {
    batches.push_back(place.load.batch);
    callers.push_back(place.load.callers);
    stages.push_back(place.stage);
    streams.push_back(place.stream);
    merges.push_back(place.merge);
    micro_batches.push_back(place.micro_batches);
    algorithms.push_back(ToString(place.algorithm));
    has_callers |= place.load.callers != 1;
    is_split |= place.micro_batches > 1;
    is_direct &= place.algorithm == Algorithm::kDirect;
  }
  auto& attributes = *node->mutable_attr();
  tensorflow::SetAttrValue(batches, &attributes[kBatchAttr]);
  tensorflow::SetAttrValue(stages, &attributes[kStageAttr]);
  tensorflow::SetAttrValue(streams, &attributes[kStreamAttr]);
  tensorflow::SetAttrValue(merges, &attributes[kMergeAttr]);
  if (has_callers) {
    tensorflow::SetAttrValue(callers, &attributes[kCallersAttr]);
  }
  if (is_split) {
    tensorflow::SetAttrValue(micro_batches, &attributes[kMicroBatchesAttr]);
  }
  if (!is_direct) {
    tensorflow::SetAttrValue(algorithms, &attributes[kAlgorithmAttr]);
  }
}

std::vector<StagePlace> Annotations(const tensorflow::NodeDef& node) {
  std::vector<int64_t> batches, stages, streams, merges;
  const bool known = tensorflow::TryGetNodeAttr(node, kBatchAttr, &batches) &&
                     tensorflow::TryGetNodeAttr(node, kStageAttr, &stages) &&
                     tensorflow::TryGetNodeAttr(node, kStreamAttr, &streams) &&
                     tensorflow::TryGetNodeAttr(node, kMergeAttr, &merges);
  const size_t size = batches.size();
  if (!known || stages.size() != size || streams.size() != size ||
      merges.size() != size) {
    return {};
  }
  const auto optional = [&](const char* name) {
    std::vector<int64_t> values;
    tensorflow::TryGetNodeAttr(node, name, &values);
    if (values.size() != size) values.assign(size, 1);
    return values;
  };
  const std::vector<int64_t> callers = optional(kCallersAttr);
  const std::vector<int64_t> micro_batches = optional(kMicroBatchesAttr);
  std::vector<std::string> algorithms;
  tensorflow::TryGetNodeAttr(node, kAlgorithmAttr, &algorithms);
  if (algorithms.size() != size) algorithms.assign(size, "direct");
  std::vector<StagePlace> places;
  for (size_t i = 0; i < size; ++i) {
    // This library never writes values outside of this range. If a graph
    // contains such a value, the operator counts as an operator without a
    // schedule.
    for (int64_t number : {batches[i], callers[i], micro_batches[i]}) {
      if (number < 1 || number > kMaxDimension) return {};
    }
    const StatusOr<Algorithm> algorithm = AlgorithmFromString(algorithms[i]);
    if (!algorithm.ok()) return {};
    places.push_back({{batches[i], callers[i]},
                      stages[i],
                      streams[i],
                      merges[i] != 0,
                      micro_batches[i],
                      *algorithm});
  }
  return places;
}

void AnnotatePrecision(DataType computed, DataType stored,
                       tensorflow::NodeDef* node) {
  if (computed == stored) return;
  tensorflow::SetAttrValue(ToString(computed),
                           &(*node->mutable_attr())[kPrecisionAttr]);
}

std::optional<DataType> AnnotatedPrecision(const tensorflow::NodeDef& node) {
  std::string name;
  if (!tensorflow::TryGetNodeAttr(node, kPrecisionAttr, &name)) {
    return std::nullopt;
  }
  const StatusOr<DataType> dtype = DataTypeFromString(name);
  return dtype.ok() ? std::make_optional(*dtype) : std::nullopt;
}

bool IsAnnotated(const tensorflow::NodeDef& node) {
  return node.attr().count(kStageAttr) > 0;
}

bool IsAnnotated(const tensorflow::GraphDef& graph) {
  return std::any_of(
      graph.node().begin(), graph.node().end(),
      [](const tensorflow::NodeDef& node) { return IsAnnotated(node); });
}

bool IsWeight(const tensorflow::NodeDef& node) {
  const auto shape = node.attr().find(kShapeOfWeight);
  return shape != node.attr().end() &&
         tensorflow::TensorShape::IsValid(shape->second.shape());
}

}  // namespace ios::tf

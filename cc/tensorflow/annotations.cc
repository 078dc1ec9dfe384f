#include "cc/tensorflow/annotations.h"

#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {
namespace {

constexpr char kBatchAttr[] = "_ios_batch";
constexpr char kStageAttr[] = "_ios_stage";
constexpr char kStreamAttr[] = "_ios_stream";
constexpr char kMergeAttr[] = "_ios_merge";

}  // namespace

void Annotate(const std::vector<Place>& places, tensorflow::NodeDef* node) {
  std::vector<int64_t> batches, stages, streams;
  std::vector<bool> merges;
  for (const Place& place : places) {
    batches.push_back(place.batch);
    stages.push_back(place.stage);
    streams.push_back(place.stream);
    merges.push_back(place.merge);
  }
  auto& attributes = *node->mutable_attr();
  tensorflow::SetAttrValue(batches, &attributes[kBatchAttr]);
  tensorflow::SetAttrValue(stages, &attributes[kStageAttr]);
  tensorflow::SetAttrValue(streams, &attributes[kStreamAttr]);
  tensorflow::SetAttrValue(merges, &attributes[kMergeAttr]);
}

std::vector<Place> Annotations(const tensorflow::NodeDef& node) {
  std::vector<int64_t> batches, stages, streams;
  std::vector<bool> merges;
  const bool known =
      tensorflow::TryGetNodeAttr(node, kBatchAttr, &batches) &&
      tensorflow::TryGetNodeAttr(node, kStageAttr, &stages) &&
      tensorflow::TryGetNodeAttr(node, kStreamAttr, &streams) &&
      tensorflow::TryGetNodeAttr(node, kMergeAttr, &merges);
  const size_t size = batches.size();
  if (!known || stages.size() != size || streams.size() != size ||
      merges.size() != size) {
    return {};
  }
  std::vector<Place> places;
  for (size_t i = 0; i < size; ++i) {
    places.push_back({batches[i], stages[i], streams[i], merges[i]});
  }
  return places;
}

bool IsAnnotated(const tensorflow::NodeDef& node) {
  return node.attr().count(kStageAttr) > 0;
}

}  // namespace ios::tf

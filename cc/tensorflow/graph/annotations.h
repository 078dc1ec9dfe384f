// Annotations: attributes of ordinary TensorFlow nodes that contain schedules.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_ANNOTATIONS_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_ANNOTATIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/names.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace ios::tf {

// The place of a node's operator in the schedule for one load (batch size and
// number of callers).
struct StagePlace {
  // The load of the schedule, with the batch size of the operator's region.
  Load load;
  int64_t stage = 0;          // counted over the whole graph
  int64_t stream = 0;         // the group in the stage
  bool merge = false;         // whether the stage merges its operators
  int64_t micro_batches = 1;  // of a split stage; 1 for other stages
  Algorithm algorithm = Algorithm::kDirect;  // computes the operator
};

// Writes the places as attributes: lists with one entry per place.
//   _ios_batch, _ios_stage, _ios_stream: list(int)
//   _ios_merge: list(int), 0 or 1
//   _ios_callers: list(int), only if some number of callers is not 1
//   _ios_micro_batches: list(int), only if some stage is split
//   _ios_algorithm: list(string), only if some algorithm is not "direct"
void Annotate(const std::vector<StagePlace>& places, tensorflow::NodeDef* node);

// Returns the places that Annotate() has written. Returns an empty list if
// there are none or if they are not valid.
std::vector<StagePlace> Annotations(const tensorflow::NodeDef& node);

// Writes the type that a node's operator computes in as the attribute
// _ios_precision (string), if the tensors of the graph have another type,
// `stored`.
void AnnotatePrecision(DataType computed, DataType stored,
                       tensorflow::NodeDef* node);

// Returns the type that AnnotatePrecision() has written, if any.
std::optional<DataType> AnnotatedPrecision(const tensorflow::NodeDef& node);

// Returns true if the node (or any node of the graph) has the attributes of a
// schedule.
bool IsAnnotated(const tensorflow::NodeDef& node);
bool IsAnnotated(const tensorflow::GraphDef& graph);

// Returns true if the node's output is a weight: if the node has a valid
// attribute kShapeOfWeight.
bool IsWeight(const tensorflow::NodeDef& node);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_ANNOTATIONS_H_

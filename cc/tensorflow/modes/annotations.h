// Annotations: the schedules that ordinary TensorFlow nodes carry as
// attributes.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_ANNOTATIONS_H_
#define IOS_TF_CC_TENSORFLOW_MODES_ANNOTATIONS_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/tensorflow/names.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace ios::tf {

// The place of a node's operator in one of its schedules.
struct Place {
  int64_t batch = 1;  // the batch size of the schedule, as the operator sees it
  int64_t stage = 0;  // in the order of the whole graph
  int64_t stream = 0;         // the group in the stage
  bool merge = false;         // whether the stage merges its operators
  int64_t micro_batches = 1;  // of a stage that is split; 1 for others
  Algorithm algorithm = Algorithm::kDirect;  // that computes the operator
};

// Writes the attributes: lists with one entry for each place, in this order.
//   _ios_batch, _ios_stage, _ios_stream: list(int)
//   _ios_merge: list(int), 0 or 1
//   _ios_micro_batches: list(int), where some stage is split
//   _ios_algorithm: list(string), where one is not "direct"
void Annotate(const std::vector<Place>& places, tensorflow::NodeDef* node);

// The places that Annotate() has written; empty if there are none.
std::vector<Place> Annotations(const tensorflow::NodeDef& node);

bool IsAnnotated(const tensorflow::NodeDef& node);

// Whether the node has kShapeOfWeight.
bool IsWeight(const tensorflow::NodeDef& node);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_MODES_ANNOTATIONS_H_

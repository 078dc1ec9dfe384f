// The attributes that carry a schedule on ordinary TensorFlow nodes.
#ifndef IOS_TF_CC_TENSORFLOW_ANNOTATIONS_H_
#define IOS_TF_CC_TENSORFLOW_ANNOTATIONS_H_

namespace ios::tf {

// int: the stage a node's operator runs in, in the order of the whole graph.
inline constexpr char kStageAttr[] = "_ios_stage";
// int: its group in the stage.
inline constexpr char kStreamAttr[] = "_ios_stream";

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_ANNOTATIONS_H_

// Names that Python and files have, too: ios_tf/native/names.py repeats them,
// and a test compares.
#ifndef IOS_TF_CC_TENSORFLOW_NAMES_H_
#define IOS_TF_CC_TENSORFLOW_NAMES_H_

#include <string>

namespace ios::tf {

// Attributes that carry the schedules of a node, see annotations.h.
inline constexpr char kBatchAttr[] = "_ios_batch";
inline constexpr char kStageAttr[] = "_ios_stage";
inline constexpr char kStreamAttr[] = "_ios_stream";
inline constexpr char kMergeAttr[] = "_ios_merge";
inline constexpr char kMicroBatchesAttr[] = "_ios_micro_batches";
inline constexpr char kAlgorithmAttr[] = "_ios_algorithm";

// The shape of the weight that a node reads from a variable, which the graph
// does not tell, or computes of variables. Only `ios_tf convert` writes it.
inline constexpr char kShapeOfWeight[] = "_ios_shape";
// The type and the shape of the variable that a placeholder stands for.
inline constexpr char kTypeOfVariable[] = "_ios_variable_type";
inline constexpr char kShapeOfVariable[] = "_ios_variable_shape";

// Follows the first's name in that of a merged convolution.
inline constexpr char kMerged[] = "/ios_merge";

inline constexpr char kOptimizer[] = "IosOptimizer";
inline constexpr char kRegion[] = "IosRegion";

// TensorFlow's options for the passes that the plugin runs itself, after its
// own: their users cannot switch them off.
inline constexpr char kRemappingPass[] = "remapping";
inline constexpr char kLayoutPass[] = "layout_optimizer";
inline constexpr char kArithmeticPass[] = "arithmetic_optimization";
inline constexpr char kSubgraphPass[] = "common_subgraph_elimination";

// Of a schedule cache: where blocks wait for `ios_tf tune`.
inline constexpr char kPending[] = "pending";

// Of an error's payload: TensorFlow's own inference of shapes has failed.
inline constexpr char kNoShapes[] = "ios_tf/no_shapes";

// All of them, and the version of blocks, problems and schedules, as JSON.
std::string NamesJson();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_NAMES_H_

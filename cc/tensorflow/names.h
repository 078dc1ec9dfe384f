// Names that this library shares with Python and with files.
// ios_tf/native/names.py repeats them, and a test compares the two.
#ifndef IOS_TF_CC_TENSORFLOW_NAMES_H_
#define IOS_TF_CC_TENSORFLOW_NAMES_H_

#include <string>

namespace ios::tf {

// Names of the attributes of a node that contain its schedules; see
// annotations.h.
inline constexpr char kBatchAttr[] = "_ios_batch";
inline constexpr char kCallersAttr[] = "_ios_callers";
inline constexpr char kStageAttr[] = "_ios_stage";
inline constexpr char kStreamAttr[] = "_ios_stream";
inline constexpr char kMergeAttr[] = "_ios_merge";
inline constexpr char kMicroBatchesAttr[] = "_ios_micro_batches";
inline constexpr char kAlgorithmAttr[] = "_ios_algorithm";
inline constexpr char kPrecisionAttr[] = "_ios_precision";

// The attribute with the shape of a weight that a node reads from a variable or
// computes from variables. The graph itself does not contain this shape. Only
// `ios_tf convert` writes the attribute.
inline constexpr char kShapeOfWeight[] = "_ios_shape";
// The attributes of a placeholder for a variable: the variable's type and
// shape.
inline constexpr char kTypeOfVariable[] = "_ios_variable_type";
inline constexpr char kShapeOfVariable[] = "_ios_variable_shape";

// The suffix of a merged convolution's name, after the name of the first
// convolution that was merged.
inline constexpr char kMerged[] = "/ios_merge";

inline constexpr char kOptimizer[] = "IosOptimizer";
inline constexpr char kRegion[] = "IosRegion";
inline constexpr char kRegionReady[] = "IosRegionReady";

// TensorFlow's names for optimizer passes that the plugin runs itself, after
// its own work, so that users cannot switch them off.
inline constexpr char kRemappingPass[] = "remapping";
inline constexpr char kLayoutPass[] = "layout_optimizer";
inline constexpr char kArithmeticPass[] = "arithmetic_optimization";
inline constexpr char kSubgraphPass[] = "common_subgraph_elimination";

// The subdirectory of a schedule cache where blocks wait for `ios_tf tune`.
inline constexpr char kPending[] = "pending";

// The name of the status payload that marks errors of TensorFlow's own shape
// inference.
inline constexpr char kNoShapes[] = "ios_tf/no_shapes";

// Returns the names above, and the version of blocks, problems and schedules,
// as JSON.
std::string NamesJson();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_NAMES_H_

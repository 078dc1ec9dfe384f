// Fusion: combines imported operators (one per TensorFlow node) into the larger
// operators that are scheduled. A convolution absorbs its batch norm, bias,
// padding, residual and activation.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_FUSION_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_FUSION_H_

#include <vector>

#include "cc/tensorflow/import/importer.h"
#include "cc/tensorflow/shapes/analyzed_graph.h"

namespace ios::tf {

// Takes and returns operators in a topological order. Two operators are fused
// only if nothing else reads the tensor between them.
std::vector<ImportedOperator> Fuse(const AnalyzedGraph& analyzed,
                                   std::vector<ImportedOperator> operators);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_FUSION_H_

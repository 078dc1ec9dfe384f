// Fusion: operators as imported, one per node, become the schedule's operators:
// a convolution takes its batch norm, bias, padding, residual and activation
// in.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_FUSION_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_FUSION_H_

#include <vector>

#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/import/importer.h"

namespace ios::tf {

// Takes operators in a topological order and returns them in one. A tensor
// disappears inside an operator only if nothing else reads it.
std::vector<ImportedOperator> Fuse(const GraphIndex& graph,
                                   std::vector<ImportedOperator> operators);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_FUSION_H_

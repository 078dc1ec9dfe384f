// Writes merge stages (paper, section 3) as convolutions that TensorFlow can
// run.
#ifndef IOS_TF_CC_TENSORFLOW_CONVERT_MERGED_CONVOLUTION_H_
#define IOS_TF_CC_TENSORFLOW_CONVERT_MERGED_CONVOLUTION_H_

#include <vector>

#include "cc/core/ir/merge.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/graph/graph_editor.h"
#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// A merge stage: operators of a block that become one convolution.
struct Merge {
  MergePlan plan;
  const PartitionBlock* made = nullptr;  // the block of these operators
  std::vector<StagePlace> places;        // of the merged convolution
};

// Replaces the operators of each merge by one convolution and slices of its
// result.
void WriteMerges(const Partition& partition, const std::vector<Merge>& merges,
                 GraphEditor* editor);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_MERGED_CONVOLUTION_H_

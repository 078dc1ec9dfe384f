// LayoutMap: the layouts of a graph's tensors. Blocks are always [N,H,W,C], so
// the importer looks through Transposes to and from [N,C,H,W]. For tensors of
// rank 3, the importer looks through the nodes that add and remove a dimension.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_LAYOUT_MAP_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_LAYOUT_MAP_H_

#include <set>
#include <utility>

#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/graph/layout.h"
#include "cc/tensorflow/shapes/shape_table.h"

namespace ios::tf {

class LayoutMap {
 public:
  LayoutMap() = default;
  LayoutMap(std::set<TensorRef> channels_first, std::set<TensorRef> sequences)
      : channels_first_(std::move(channels_first)),
        sequences_(std::move(sequences)) {}

  Layout layout(TensorRef tensor) const {
    if (channels_first(tensor)) return Layout::kChannelsFirst;
    return sequences_.count(tensor) > 0 ? Layout::kSequence
                                        : Layout::kChannelsLast;
  }
  bool channels_first(TensorRef tensor) const {
    return channels_first_.count(tensor) > 0;
  }
  // Returns the tensors of rank 4 with the layout [N,C,H,W].
  const std::set<TensorRef>& channels_first_tensors() const {
    return channels_first_;
  }

 private:
  std::set<TensorRef> channels_first_, sequences_;
};

// Finds the tensors with the layout [N,C,H,W]: inputs and outputs of nodes with
// this data format, and tensors that are connected to them by elementwise nodes
// or Transposes. A tensor is [N,H,W,C] if nothing indicates its layout. Call it
// before ShapeTable::UseLayouts().
LayoutMap FindLayouts(GraphView* view, const ShapeTable& shapes);

// The change of layout that a Transpose makes.
enum class Permutation { kNone, kToChannelsFirst, kToChannelsLast, kOther };
Permutation PermutationOf(GraphView* view, int transpose);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_LAYOUT_MAP_H_

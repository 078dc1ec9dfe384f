// Layout: the order of the dimensions of a tensor of the graph.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUT_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUT_H_

namespace ios::tf {

// The order in which a tensor of the graph has the dimensions N, H, W and C.
enum class Layout {
  kChannelsLast,   // [N,H,W,C] or [N,C]
  kChannelsFirst,  // [N,C,H,W]
  kSequence,       // [N,W,C]; the height is 1
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_LAYOUT_H_

// OpenGraph: a frozen graph, opened once for all that is asked of it.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_OPEN_GRAPH_H_
#define IOS_TF_CC_TENSORFLOW_MODES_OPEN_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/tensorflow/modes/rewrite.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace ios::tf {

// Keeps the graph, and its partition for each batch size and device that it was
// asked about. Not thread-safe.
class OpenGraph {
 public:
  // The signatures of `meta_graph` name what is fed and what is wanted.
  // `image_size` takes the place of heights and widths that it leaves open.
  static absl::StatusOr<std::unique_ptr<OpenGraph>> Open(
      const tensorflow::MetaGraphDef& meta_graph, const ImageSize& image_size);

  // The blocks to schedule at a batch size, as JSON: see collect.h. `device` is
  // kCpu or kGpu, here and below.
  absl::StatusOr<std::string> Blocks(int64_t batch_size,
                                     const std::string& device);

  // The graph with schedules for one or several batch sizes, see rewrite.h; as
  // it is if it has schedules already.
  absl::StatusOr<tensorflow::GraphDef> Rewritten(
      const std::vector<int64_t>& batch_sizes, const std::string& device,
      const RewriteOptions& options);

  // The graph as it runs: regions that carry schedules are IosRegion nodes. As
  // it is, with a warning, if that fails.
  absl::StatusOr<tensorflow::GraphDef> Lowered(int64_t batch_size,
                                               const std::string& device);

 private:
  OpenGraph(std::unique_ptr<tensorflow::grappler::GrapplerItem> item,
            const ImageSize& image_size)
      : item_(std::move(item)), image_size_(image_size) {}

  absl::StatusOr<PartitionOptions> OptionsFor(int64_t batch_size,
                                              const std::string& device) const;

  absl::StatusOr<const Partition*> PartitionFor(
      const PartitionOptions& options);

  std::unique_ptr<tensorflow::grappler::GrapplerItem> item_;
  const ImageSize image_size_;
  std::map<std::pair<int64_t, std::string>, Partition> partitions_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_MODES_OPEN_GRAPH_H_

// OpenGraph: a frozen graph that is opened once and serves several requests.
#ifndef IOS_TF_CC_TENSORFLOW_CONVERT_OPEN_GRAPH_H_
#define IOS_TF_CC_TENSORFLOW_CONVERT_OPEN_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/convert/rewrite.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace ios::tf {

// Stores the graph, and its partition for each load (batch size and number of
// callers) and device that was requested with the latest precision. (A
// conversion may try many precisions, one after the other.) Not thread-safe.
class OpenGraph {
 public:
  // Opens the graph of `meta_graph`, whose signatures name the inputs and
  // outputs. `image_size` replaces heights and widths that the graph leaves
  // unknown.
  static absl::StatusOr<std::unique_ptr<OpenGraph>> Open(
      const tensorflow::MetaGraphDef& meta_graph, const ImageSize& image_size);

  // Returns the blocks to schedule for a load as JSON; see collect.h. `device`
  // is kCpu or kGpu, here and below.
  absl::StatusOr<std::string> Blocks(const Load& load,
                                     const std::string& device,
                                     const Precision& precision);

  // Returns the graph with schedules for one or more loads; see rewrite.h.
  // Returns the graph unchanged if it already has schedules.
  absl::StatusOr<tensorflow::GraphDef> Annotate(const std::vector<Load>& loads,
                                                const std::string& device,
                                                const Precision& precision,
                                                const RewriteOptions& options);

  // Returns the graph as the plugin runs it: each region that has schedules is
  // one IosRegion node. If lowering fails, logs a warning and returns the graph
  // unchanged.
  absl::StatusOr<tensorflow::GraphDef> Lower(int64_t batch_size,
                                             const std::string& device);

 private:
  OpenGraph(std::unique_ptr<tensorflow::grappler::GrapplerItem> item,
            const ImageSize& image_size)
      : item_(std::move(item)), image_size_(image_size) {}

  absl::StatusOr<PartitionOptions> OptionsFor(const Load& load,
                                              const std::string& device,
                                              const Precision& precision) const;

  absl::StatusOr<const Partition*> PartitionFor(
      const PartitionOptions& options);

  std::unique_ptr<tensorflow::grappler::GrapplerItem> item_;
  const ImageSize image_size_;
  Precision precision_;  // of partitions_
  std::map<std::pair<Load, std::string>, Partition> partitions_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_OPEN_GRAPH_H_

#include "cc/tensorflow/convert/open_graph.h"

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/convert/collect.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/graph/inline_calls.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/plugin/annotated_schedules.h"
#include "cc/tensorflow/plugin/lower.h"
#include "cc/tensorflow/status_util.h"
#include "cc/tensorflow/warn.h"
#include "tensorflow/core/grappler/grappler_item_builder.h"

namespace ios::tf {

using ::tensorflow::GraphDef;
using ::tensorflow::grappler::GrapplerItem;

absl::StatusOr<std::unique_ptr<OpenGraph>> OpenGraph::Open(
    const tensorflow::MetaGraphDef& meta_graph, const ImageSize& image_size) {
  if (image_size[0] < 1 || image_size[1] < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("image_size is ", image_size[0], " x ", image_size[1],
                     ", but height and width must be positive"));
  }
  // TensorFlow's own function TF_OptimizeGraph uses the same settings.
  tensorflow::grappler::ItemConfig config;
  config.apply_optimizations = false;
  config.ignore_user_placement = false;
  std::unique_ptr<GrapplerItem> item =
      tensorflow::grappler::GrapplerItemFromMetaGraphDef("graph", meta_graph,
                                                         config);
  if (!item) {
    return absl::InvalidArgumentError("TensorFlow cannot read the graph");
  }
  TF_RETURN_IF_ERROR(InlineConvolutionCalls(item.get()).status());
  return std::unique_ptr<OpenGraph>(new OpenGraph(std::move(item), image_size));
}

absl::StatusOr<PartitionOptions> OpenGraph::OptionsFor(
    const Load& load, const std::string& device,
    const Precision& precision) const {
  if (load.batch < 1 || load.callers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", load.batch, " and callers is ",
                     load.callers, ", but both must be positive"));
  }
  if (device != kCpu && device != kGpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("device '", device, "' is neither \"cpu\" nor \"gpu\""));
  }
  PartitionOptions options;
  options.batch_size = load.batch;
  options.callers = load.callers;
  options.image_size = image_size_;
  options.placement = {device, device};
  options.precision = precision;
  return options;
}

absl::StatusOr<const Partition*> OpenGraph::PartitionFor(
    const PartitionOptions& options) {
  if (options.precision != precision_) {
    partitions_.clear();
    precision_ = options.precision;
  }
  const auto [found, is_new] = partitions_.try_emplace(
      {{options.batch_size, options.callers}, options.placement.only},
      Partition());
  if (is_new) {
    absl::StatusOr<Partition> made = PartitionGraph(*item_, options);
    if (!made.ok()) {
      partitions_.erase(found);
      return made.status();
    }
    found->second = std::move(*made);
  }
  return &found->second;
}

absl::StatusOr<std::string> OpenGraph::Blocks(const Load& load,
                                              const std::string& device,
                                              const Precision& precision) {
  TF_ASSIGN_OR_RETURN(const PartitionOptions options,
                      OptionsFor(load, device, precision));
  TF_ASSIGN_OR_RETURN(const Partition* const partition, PartitionFor(options));
  return Collect(*partition);
}

absl::StatusOr<GraphDef> OpenGraph::Annotate(const std::vector<Load>& loads,
                                             const std::string& device,
                                             const Precision& precision,
                                             const RewriteOptions& options) {
  GraphDef graph = item_->graph;
  if (IsAnnotated(graph)) return graph;
  if (loads.empty()) {
    return absl::InvalidArgumentError(
        "loads is empty. Give at least one batch size");
  }
  std::vector<const Partition*> partitions;
  for (const Load& load : loads) {
    TF_ASSIGN_OR_RETURN(const PartitionOptions for_load,
                        OptionsFor(load, device, precision));
    TF_ASSIGN_OR_RETURN(partitions.emplace_back(), PartitionFor(for_load));
  }
  TF_RETURN_IF_ERROR(Rewrite(partitions, options, &graph));
  return graph;
}

absl::StatusOr<GraphDef> OpenGraph::Lower(int64_t batch_size,
                                          const std::string& device) {
  TF_ASSIGN_OR_RETURN(const PartitionOptions options,
                      OptionsFor({batch_size}, device, Precision()));
  GraphDef graph = item_->graph;
  if (!IsAnnotated(graph)) return graph;
  const absl::Status lowered = CatchExceptionsAbsl([&]() -> absl::Status {
    TF_ASSIGN_OR_RETURN(const Partition* const partition,
                        PartitionFor(options));
    return ios::tf::Lower(*partition, AnnotatedSchedules(*partition), &graph)
        .status();
  });
  if (!lowered.ok()) {
    Warn(Reason::kGraphNotLowered,
         absl::StrCat("the graph runs as plain TensorFlow: ",
                      lowered.message()));
    return item_->graph;
  }
  return graph;
}

}  // namespace ios::tf

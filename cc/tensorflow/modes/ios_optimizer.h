// IosOptimizer: the graph optimizer TensorFlow calls, by name and as plugin.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_IOS_OPTIMIZER_H_
#define IOS_TF_CC_TENSORFLOW_MODES_IOS_OPTIMIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/tensorflow/modes/rewrite.h"
#include "cc/tensorflow/on_the_fly/runtime.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"

namespace ios::tf {

// Parameters, all optional:
//   mode: "collect", "rewrite", "lower" (default) or "optimize": lower, and
//     give schedules to frozen graphs that carry none, see runtime.h.
//   batch_size: int or (rewrite) list(int), in place of unknown leading
//     dimensions; 0: 1.
//   device: "cpu" or "gpu", what to take nodes for: those placed elsewhere are
//     left alone. Without it, collect and rewrite are for the CPU, and lower
//     takes every node for the device TensorFlow has placed or will place it
//     on.
//   output (collect): the file to write, see collect.h.
//   schedules, left, materialise_merges (rewrite): the directory, the numbers
//     of regions and whether (int), see rewrite.h.
//   cache_dir (optimize): the schedule cache, see schedule_cache.h.
//   on_miss (optimize): "pass" (default), "greedy" or "search".
class IosOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(
      const tensorflow::RewriterConfig_CustomGraphOptimizer* config) override;
  std::string name() const override { return "IosOptimizer"; }
  // Otherwise functions come without their bodies, see inline_calls.h.
  bool UsesFunctionLibrary() const override { return true; }
  absl::Status Optimize(tensorflow::grappler::Cluster* cluster,
                        const tensorflow::grappler::GrapplerItem& item,
                        tensorflow::GraphDef* optimized_graph) override;

 private:
  enum class Mode { kCollect, kRewrite, kLower, kOptimize };

  absl::Status ReadParameter(const std::string& key,
                             const tensorflow::AttrValue& value);
  bool LowersGraphs() const {
    return mode_ == Mode::kLower || mode_ == Mode::kOptimize;
  }
  absl::Status CollectOrRewrite(const tensorflow::grappler::GrapplerItem& item,
                                tensorflow::GraphDef* optimized_graph) const;

  Mode mode_ = Mode::kLower;
  PartitionOptions options_;  // with the first of the batch sizes
  RewriteOptions rewrite_;
  std::string device_, output_;
  RuntimeOptions runtime_;
  bool seen_ = false;  // the graph
};

// Runs in every TensorFlow function and session once the library is loaded:
// lowers annotated graphs and, by ProcessOptions(), others. The passes that
// would hide operators from it are turned off for all graphs; it runs them
// itself on what it leaves. There is one for each type of device in a graph;
// the GPU's does the work of all.
class IosPlugin : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  explicit IosPlugin(bool leaves_gpu_graphs)
      : leaves_gpu_graphs_(leaves_gpu_graphs) {}

  absl::Status Init(
      const tensorflow::RewriterConfig_CustomGraphOptimizer*) override {
    return absl::OkStatus();
  }
  std::string name() const override { return "IosPlugin"; }
  bool UsesFunctionLibrary() const override { return false; }
  absl::Status Optimize(tensorflow::grappler::Cluster* cluster,
                        const tensorflow::grappler::GrapplerItem& item,
                        tensorflow::GraphDef* optimized_graph) override;

 private:
  const bool leaves_gpu_graphs_;
  bool seen_ = false;  // the graph
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_MODES_IOS_OPTIMIZER_H_

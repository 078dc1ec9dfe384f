// IosOptimizer: the graph optimizer that TensorFlow calls, by name or as a
// plugin.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_IOS_OPTIMIZER_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_IOS_OPTIMIZER_H_

#include <string>

#include "cc/tensorflow/names.h"
#include "cc/tensorflow/partition/regions.h"
#include "cc/tensorflow/plugin/runtime.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"

namespace ios::tf {

// Parameters, all optional:
//   mode: "lower" (default) or "optimize". "optimize" also gives schedules to
//     frozen graphs that carry none; see runtime.h.
//   batch_size: replaces unknown leading dimensions; 0 means 1.
//   device: "cpu" or "gpu". Nodes placed on another device are left alone, and
//     nodes without a device count as placed on this one. By default, each node
//     counts for the device where TensorFlow has placed or will place it.
//   cache_dir (optimize): the schedule cache; see schedule_cache.h.
//   on_miss (optimize): "skip" (default), "greedy" or "search".
class IosOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(
      const tensorflow::RewriterConfig_CustomGraphOptimizer* config) override;
  std::string name() const override { return kOptimizer; }
  // Shape inference needs the bodies of functions, which TensorFlow omits
  // otherwise.
  bool UsesFunctionLibrary() const override { return true; }
  absl::Status Optimize(tensorflow::grappler::Cluster* cluster,
                        const tensorflow::grappler::GrapplerItem& item,
                        tensorflow::GraphDef* optimized_graph) override;

 private:
  enum class Mode { kLower, kOptimize };

  absl::Status ReadParameter(const std::string& key,
                             const tensorflow::AttrValue& value);

  Mode mode_ = Mode::kLower;
  PartitionOptions options_;
  std::string device_;
  RuntimeOptions runtime_;
  bool seen_ = false;  // Optimize() has been called before
};

// Runs in every TensorFlow function and session once the library is loaded. It
// lowers annotated graphs and, if there are ProcessOptions(), other graphs.
// Passes that would hide operators from the plugin are turned off for all
// graphs. The plugin runs these passes itself on the rest of the graph.
// TensorFlow has one plugin for each type of device in a graph; the GPU's
// plugin does the work of all.
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
  bool seen_ = false;  // Optimize() has been called before
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_IOS_OPTIMIZER_H_

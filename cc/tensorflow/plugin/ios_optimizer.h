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

// Parameters of the optimizer, all optional:
//   mode: "lower" (default) or "optimize". "optimize" also gives schedules to
//     frozen graphs that carry none; see runtime.h.
//   batch_size: replaces unknown leading dimensions; 0 means 1.
//   callers: the number of callers that schedules are looked up for; 0 means 1.
//   device: "cpu" or "gpu". Only nodes on this type of device are optimized;
//     nodes without a device count as placed on it. By default, nodes of both
//     types are optimized, wherever TensorFlow has placed or will place them.
//   cache_dir (optimize): the schedule cache; see schedule_cache.h.
//   on_miss (optimize): "skip" (default), "greedy" or "search".
//   precision (optimize): "float32" (default), "bfloat16" or "auto"; see
//     PrecisionFromString().
class IosOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(
      const tensorflow::RewriterConfig_CustomGraphOptimizer* config) override;
  std::string name() const override { return kOptimizer; }
  // Makes TensorFlow pass the bodies of functions, which shape inference needs.
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

// The optimizer that TensorFlow runs for every function and session once the
// library is loaded. It lowers annotated graphs and, if ProcessOptions() are
// set, other graphs. The plugin turns off the passes of TensorFlow that would
// change nodes before it sees them, and runs these passes itself on the nodes
// outside of regions. TensorFlow calls one plugin for each type of device in a
// graph; if a graph uses a GPU, only the GPU's plugin does something.
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

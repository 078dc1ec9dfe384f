// IosOptimizer: the graph optimizer TensorFlow calls, by name and as plugin.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_IOS_OPTIMIZER_H_
#define IOS_TF_CC_TENSORFLOW_MODES_IOS_OPTIMIZER_H_

#include <string>

#include "cc/tensorflow/names.h"
#include "cc/tensorflow/on_the_fly/runtime.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"

namespace ios::tf {

// Parameters, all optional:
//   mode: "lower" (default), or "optimize": lower, and give schedules to frozen
//     graphs that carry none, see runtime.h.
//   batch_size: in place of unknown leading dimensions; 0: 1.
//   device: "cpu" or "gpu", what to take nodes for: those placed elsewhere are
//     left alone. Without it, every node is taken for the device TensorFlow has
//     placed or will place it on.
//   cache_dir (optimize): the schedule cache, see schedule_cache.h.
//   on_miss (optimize): "pass" (default), "greedy" or "search".
class IosOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(
      const tensorflow::RewriterConfig_CustomGraphOptimizer* config) override;
  std::string name() const override { return kOptimizer; }
  // Shapes are inferred through functions, which otherwise have no bodies here.
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

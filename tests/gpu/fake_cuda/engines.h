// The engines of the fake cuDNN. For graphs that have a recording, these are
// the engines that the real cuDNN proposed. For other graphs, they are a few
// invented engines that differ in time, workspace, precision and the graphs
// that they support.
#ifndef IOS_TF_TESTS_FAKE_CUDA_ENGINES_H_
#define IOS_TF_TESTS_FAKE_CUDA_ENGINES_H_

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph.h"

namespace fake {

// An engine with its knobs, for one graph.
struct Engine {
  int64_t index = 0;
  std::vector<std::pair<cudnnBackendKnobType_t, int64_t>> knobs;
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behavior;
  int64_t workspace = 0;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // the result of building a plan
  Arithmetic arithmetic = Arithmetic::kFloat32;
  double microseconds = 0;  // simulated
  int64_t blocks = 1;       // each takes a whole multiprocessor

  // Returns the name that cuDNN's frontend uses, such as "eng41_k2=3_k13=0".
  std::string Name() const;
  // Returns whether fused activations keep NaN. cuDNN states this by a
  // numerical note.
  bool KeepsNan() const;
  bool Compiles() const;
};
using EnginePtr = std::shared_ptr<const Engine>;

// Returns the engines that the heuristics propose for a graph, in order.
std::vector<EnginePtr> Propose(const OperationGraph& graph,
                               cudnnBackendHeurMode_t mode);

// Returns the engine with this name, or null if the graph does not have one.
EnginePtr FindEngine(const OperationGraph& graph, const std::string& name);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_ENGINES_H_

// The engines of the fake cuDNN: those that the real one proposed where there
// is a recording of it, and otherwise a few that differ in time, workspace,
// exactness and what they support.
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
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // of building a plan
  Arithmetic arithmetic = Arithmetic::kFloat32;
  double microseconds = 0;  // simulated
  int64_t blocks = 1;       // each takes a whole multiprocessor

  // "eng41_k2=3_k13=0", as cuDNN's frontend has it.
  std::string Name() const;
  // Whether fused activations keep NaN: cuDNN promises this by a note.
  bool KeepsNan() const;
  bool Compiles() const;
};
using EnginePtr = std::shared_ptr<const Engine>;

// The engines that heuristics propose, in order.
std::vector<EnginePtr> Propose(const OperationGraph& graph,
                               cudnnBackendHeurMode_t mode);

// Null if the graph has no engine of that name.
EnginePtr FindEngine(const OperationGraph& graph, const std::string& name);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_ENGINES_H_

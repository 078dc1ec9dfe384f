// The engines that the real cuDNN proposed for graphs. The environment variable
// FAKE_CUDNN_RECORDINGS names the file, which record.py has written.
#ifndef IOS_TF_TESTS_FAKE_CUDA_RECORDINGS_H_
#define IOS_TF_TESTS_FAKE_CUDA_RECORDINGS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engines.h"

namespace fake {

struct RecordedGraph {
  std::vector<Engine> engines;
  // Maps each mode of the heuristics to the indices in `engines` of the engines
  // that this mode proposed, in order.
  std::map<int, std::vector<size_t>> proposed;
};

// Returns the recorded answer for the graph with this key. If the file of
// FAKE_CUDNN_RECORDINGS does not have the graph, returns another graph's answer
// if `any` is true, and otherwise null. Returns null if there is no such file.
const RecordedGraph* FindRecorded(const std::string& key, bool any);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_RECORDINGS_H_

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

// Returns the recorded answer for the graph with this key, or null if
// FAKE_CUDNN_RECORDINGS is not set. If its file does not have the graph,
// returns another graph's answer if `any` is true, and null otherwise.
const RecordedGraph* FindRecorded(const std::string& key, bool any);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_RECORDINGS_H_

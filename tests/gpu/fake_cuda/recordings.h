// The engines that the real cuDNN proposed for graphs, as record.py wrote it
// into the file that the environment's FAKE_CUDNN_RECORDINGS names.
#ifndef IOS_TF_TESTS_FAKE_CUDA_RECORDINGS_H_
#define IOS_TF_TESTS_FAKE_CUDA_RECORDINGS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engines.h"

namespace fake {

struct RecordedGraph {
  std::vector<Engine> engines;  // with what cuDNN says of them
  // By mode of the heuristics, in order: indices of `engines`.
  std::map<int, std::vector<size_t>> proposed;
};

// Null if there is no recording, or none of the graph.
const RecordedGraph* FindRecorded(const std::string& key);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_RECORDINGS_H_

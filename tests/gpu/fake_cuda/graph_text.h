// Graphs of the fake cuDNN as text, and their keys.
#ifndef IOS_TF_TESTS_FAKE_CUDA_GRAPH_TEXT_H_
#define IOS_TF_TESTS_FAKE_CUDA_GRAPH_TEXT_H_

#include <cstdint>
#include <string>

#include "graph.h"

namespace fake {

// Numbers with spaces between.
std::string ToText(const OperationGraph& graph);
// False if it is no graph's text.
bool FromText(const std::string& text, OperationGraph* graph);

// FNV-1a, the same in every process: keys are in files.
uint64_t Hash(const std::string& text);

// The hash of a graph's text, in 16 hexadecimal digits.
std::string KeyOf(const OperationGraph& graph);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_GRAPH_TEXT_H_

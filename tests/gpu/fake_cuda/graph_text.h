// Graphs of the fake cuDNN as text, and their keys.
#ifndef IOS_TF_TESTS_FAKE_CUDA_GRAPH_TEXT_H_
#define IOS_TF_TESTS_FAKE_CUDA_GRAPH_TEXT_H_

#include <cstdint>
#include <string>

#include "graph.h"

namespace fake {

// Writes a graph as numbers that are separated by spaces.
std::string ToText(const OperationGraph& graph);
// Reads a graph. Returns false if the text does not describe a graph.
bool FromText(const std::string& text, OperationGraph* graph);

// Returns the FNV-1a hash. It is the same in every process, because recordings
// in files contain such hashes as keys.
uint64_t Hash(const std::string& text);

// The hash of a graph's text, in 16 hexadecimal digits.
std::string KeyOf(const OperationGraph& graph);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_GRAPH_TEXT_H_

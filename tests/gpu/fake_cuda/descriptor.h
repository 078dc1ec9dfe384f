// cuDNN's descriptors as maps of attributes, and the operation graph that
// descriptors of operations describe. The fake cuDNN uses this file, and so
// does the proxy that passes calls on to the real cuDNN (proxy.cc).
#ifndef IOS_TF_TESTS_FAKE_CUDA_DESCRIPTOR_H_
#define IOS_TF_TESTS_FAKE_CUDA_DESCRIPTOR_H_

#include <cudnn_graph.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph.h"

namespace fake {

struct Engine;
struct Descriptor;
using DescriptorPtr = std::shared_ptr<Descriptor>;
// Descriptors, keyed by the handles that callers have.
using Descriptors = std::map<const void*, DescriptorPtr>;

struct Attribute {
  cudnnBackendAttributeType_t type;
  int64_t count = 0;
  std::vector<char> bytes;
  std::vector<DescriptorPtr> descriptors;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  // Set for graphs, and for heuristics, engines and plans of a graph.
  std::shared_ptr<const OperationGraph> graph;
  // Only the fake cuDNN sets the members below.
  std::shared_ptr<const Engine> engine;  // for configurations and plans
  std::vector<std::shared_ptr<const Engine>> engines;  // for heuristics
  bool executed = false;                               // for plans

  bool Has(cudnnBackendAttributeName_t name) const {
    return attributes.count(name) != 0;
  }
  template <typename T>
  std::vector<T> All(cudnnBackendAttributeName_t name) const {
    const auto it = attributes.find(name);
    if (it == attributes.end()) return {};
    std::vector<T> values(it->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), it->second.bytes.data(),
                it->second.bytes.size());
    return values;
  }
  template <typename T>
  T Get(cudnnBackendAttributeName_t name, T otherwise) const {
    const std::vector<T> values = All<T>(name);
    return values.empty() ? otherwise : values[0];
  }
  const Descriptor* Ref(cudnnBackendAttributeName_t name) const {
    const auto it = attributes.find(name);
    return it == attributes.end() || it->second.descriptors.empty()
               ? nullptr
               : it->second.descriptors[0].get();
  }
};

size_t SizeOf(cudnnBackendAttributeType_t type);

// Returns the descriptor with this handle, or null if it does not exist.
DescriptorPtr Find(const Descriptors& descriptors, const void* handle);

// Returns an attribute with the `count` values in `array`. If the values are
// handles, the attribute's descriptors are looked up in `descriptors`; a
// descriptor that does not exist is null.
Attribute MakeAttribute(const Descriptors& descriptors,
                        cudnnBackendAttributeType_t type, int64_t count,
                        const void* array);

// Sets the graph of a CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR. On failure,
// stores the reason in `why`.
cudnnStatus_t BuildGraph(Descriptor* descriptor, std::string* why);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_DESCRIPTOR_H_

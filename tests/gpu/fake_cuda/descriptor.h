// cuDNN's descriptors as bags of attributes, and the graph that those of
// operations make; of the fake cuDNN and of the proxy before the real one.
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
// By the handles that the caller has.
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
  // Of a graph and what comes of it.
  std::shared_ptr<const OperationGraph> graph;
  // Of the fake cuDNN only.
  std::shared_ptr<const Engine> engine;  // of a configuration, a plan
  std::vector<std::shared_ptr<const Engine>> engines;  // of a heuristic
  bool executed = false;                               // a plan

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

// Null if there is none.
DescriptorPtr Find(const Descriptors& descriptors, const void* handle);

// An attribute of the values that are in `array`. Its descriptors are null
// where `descriptors` has none of the handle.
Attribute MakeAttribute(const Descriptors& descriptors,
                        cudnnBackendAttributeType_t type, int64_t count,
                        const void* array);

// Sets the graph of a CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR; if it fails,
// `why` says why.
cudnnStatus_t BuildGraph(Descriptor* descriptor, std::string* why);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_DESCRIPTOR_H_

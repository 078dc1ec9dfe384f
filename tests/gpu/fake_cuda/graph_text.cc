#include "graph_text.h"

#include <cstdio>
#include <sstream>
#include <type_traits>

namespace fake {
namespace {

struct Writer {
  std::ostringstream out;

  template <typename T>
  void operator()(const T& value) {
    out << value << ' ';
  }
  void operator()(const std::vector<int64_t>& values) {
    (*this)(values.size());
    for (int64_t value : values) (*this)(value);
  }
};

struct Reader {
  std::istringstream in;

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_enum_v<T>) {
      int number = 0;
      in >> number;
      value = static_cast<T>(number);
    } else {
      in >> value;
    }
  }
  void operator()(std::vector<int64_t>& values) {
    size_t count = 0;
    in >> count;
    values.resize(in && count < 16 ? count : 0);
    for (int64_t& value : values) in >> value;
  }
};

template <typename Visitor>
void Visit(Visitor& visit, GraphTensor& tensor) {
  visit(tensor.type);
  visit(tensor.dims);
  visit(tensor.strides);
  visit(tensor.uid);
  visit(tensor.alignment);
  visit(tensor.is_virtual);
}

template <typename Visitor>
void Visit(Visitor& visit, GraphOperation& op) {
  visit(op.convolution);
  visit(op.transposed);
  visit(op.has_b);
  Visit(visit, op.x);
  Visit(visit, op.y);
  if (op.has_b) Visit(visit, op.b);
  for (auto* values :
       {&op.padding_before, &op.padding_after, &op.dilations, &op.strides}) {
    visit(*values);
  }
  visit(op.mode);
  for (double* value : {&op.lower_clip, &op.upper_clip, &op.lower_clip_slope,
                        &op.elu_alpha, &op.swish_beta}) {
    visit(*value);
  }
}

}  // namespace

std::string ToText(const OperationGraph& graph) {
  Writer write;
  write.out.precision(17);
  write(graph.operations.size());
  for (GraphOperation op : graph.operations) Visit(write, op);
  return write.out.str();
}

bool FromText(const std::string& text, OperationGraph* graph) {
  Reader read{std::istringstream(text)};
  size_t count = 0;
  read(count);
  graph->operations.resize(read.in && count < 16 ? count : 0);
  for (GraphOperation& op : graph->operations) Visit(read, op);
  return read.in && !graph->operations.empty();
}

uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

std::string KeyOf(const OperationGraph& graph) {
  char key[17];
  snprintf(key, sizeof(key), "%016llx",
           static_cast<unsigned long long>(Hash(ToText(graph))));
  return key;
}

}  // namespace fake

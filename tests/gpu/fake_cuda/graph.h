// Graphs of the fake cuDNN: a convolution and pointwise operations on its
// result, computed on the CPU.
#ifndef IOS_TF_TESTS_FAKE_CUDA_GRAPH_H_
#define IOS_TF_TESTS_FAKE_CUDA_GRAPH_H_

#include <cudnn_graph.h>

#include <cstdint>
#include <map>
#include <vector>

namespace fake {

struct GraphTensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> dims, strides;  // N, C, H, W; strides in elements
  int64_t uid = 0;
  int64_t alignment = 1;  // of the tensor's address, in bytes
  bool is_virtual = false;

  int64_t element_bytes() const { return type == CUDNN_DATA_FLOAT ? 4 : 2; }
  int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

struct GraphOperation {
  bool convolution = false;
  bool transposed = false;  // the convolution maps y to x
  GraphTensor x, b,
      y;  // b: the filter, or a pointwise operation's second operand
  bool has_b = false;
  // Attributes of convolutions.
  std::vector<int64_t> padding_before, padding_after, dilations, strides;
  // Attributes of pointwise operations.
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  double lower_clip = 0, upper_clip = 0, lower_clip_slope = 0;
  double elu_alpha = 1, swish_beta = 1;
};

struct OperationGraph {
  std::vector<GraphOperation> operations;

  // Returns the tensors that are not virtual, without duplicates.
  std::vector<GraphTensor> Tensors() const;
  double Flops() const;
};

// The type to which an engine rounds the operands of multiplications.
enum class Arithmetic { kFloat32, kTf32, kBFloat16 };

// Computes `graph`, and reports its accesses to the machine. `memory` maps the
// uid of each tensor to its address. Unless `keeps_nan`, a Relu turns NaN into
// its lower limit.
void RunGraph(const OperationGraph& graph,
              const std::map<int64_t, void*>& memory, Arithmetic arithmetic,
              bool keeps_nan);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_GRAPH_H_

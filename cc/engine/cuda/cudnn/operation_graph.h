// Describes a convolution as a graph of cuDNN operations: the tensors, the
// convolution, and the operations on its result.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_

#include <cstdint>

#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/frontend.h"

namespace ios::cuda {

// The ids of a graph's tensors in memory. Tensors that are not in memory have
// ids from kFirstVirtual on.
enum Uid : int64_t { kX = 1, kW, kBias, kResidual, kY, kFirstVirtual };

// Returns cuDNN's mode for the activation; NOT_SET if cuDNN's graphs do not
// support the activation.
fe::PointwiseMode_t ModeOf(const Activation& activation);

// Builds the graph: convolution, + residual, + bias, activation. cuDNN's
// engines for convolutions with bias and activation know this order. With
// `identity`, an identity follows at the end, which these engines do not know.
// Heuristics then propose engines that fuse any graph. Throws the frontend's
// exceptions.
fe::OperationGraph MakeGraph(const ConvolutionSpec& spec, bool identity,
                             cudnnHandle_t handle);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_

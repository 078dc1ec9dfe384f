// A convolution as a graph of cuDNN's operations: tensors, the convolution, and
// what is done to its result.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_

#include <cstdint>

#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/frontend.h"

namespace ios::cuda {

// The ids that a graph gives the tensors in memory.
enum Uid : int64_t { kX = 1, kW, kBias, kResidual, kY, kFirstVirtual };

// NOT_SET if cuDNN's graphs do not have the activation.
fe::PointwiseMode_t ModeOf(const Activation& activation);

// convolution, + residual, + bias, activation: the order that cuDNN's engines
// for convolutions with bias and activation know. With an `identity` at the
// end, the graph is none of theirs: then heuristics propose engines that fuse
// any graph. Throws what the frontend throws.
fe::OperationGraph MakeGraph(const ConvolutionSpec& spec, bool identity,
                             cudnnHandle_t handle);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_

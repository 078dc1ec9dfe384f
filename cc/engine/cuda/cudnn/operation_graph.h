// Describes a convolution as a graph of cuDNN operations: the tensors, the
// convolution, and the operations on its result.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_

#include <cstdint>

#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/frontend.h"

namespace ios::cuda {

// The ids of a graph's tensors. Tensors that are not stored in memory have the
// ids kFirstVirtual and above.
enum Uid : int64_t { kX = 1, kW, kBias, kResidual, kY, kFirstVirtual };

// Returns cuDNN's mode for the activation, or NOT_SET if cuDNN's graphs do not
// support the activation.
fe::PointwiseMode_t ModeOf(const Activation& activation);

// Builds the graph: convolution, + residual, + bias, activation. cuDNN has
// specialised engines for this order of operations. With `identity`, an
// identity is added at the end, which these engines do not support, so that
// cuDNN's heuristics propose engines that fuse any graph. Throws the frontend's
// exceptions.
fe::OperationGraph MakeGraph(const ConvolutionSpec& spec, bool identity,
                             cudnnHandle_t handle);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_OPERATION_GRAPH_H_

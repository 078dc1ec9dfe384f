// CaptureGraph: makes a CUDA graph of work that is enqueued on a stream.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_GRAPH_CAPTURE_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_GRAPH_CAPTURE_H_

#include <cuda.h>

#include "cc/core/status.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Calls enqueue(stream) and captures the work that it enqueues into a graph,
// which is ready to launch. `enqueue` may also use streams that fork from
// `stream` and join it again. Other code must not use `stream` during the call.
template <typename Enqueue>
StatusOr<GraphExec> CaptureGraph(const Device* device, CUstream stream,
                                 const Enqueue& enqueue) {
  // In thread-local mode, other threads may allocate and synchronise during the
  // capture.
  IOS_CUDA_RETURN_IF_ERROR(device, cuStreamBeginCapture, stream,
                           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  const Status enqueued = enqueue(stream);
  // The capture must be ended even if `enqueue` failed; otherwise, the stream
  // stays in capture mode.
  CUgraph captured = nullptr;
  const CUresult result =
      device->driver().cuStreamEndCapture(stream, &captured);
  const Graph graph(device, captured);
  IOS_RETURN_IF_ERROR(enqueued);
  if (result != CUDA_SUCCESS) {
    return ToStatus(device->driver(), result, "cuStreamEndCapture");
  }
  CUgraphExec exec = nullptr;
  IOS_CUDA_RETURN_IF_ERROR(device, cuGraphInstantiateWithFlags, &exec, captured,
                           0);
  return GraphExec(device, exec);
}

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_GRAPH_CAPTURE_H_

// CaptureGraph: makes a CUDA graph of work that is enqueued on a stream.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_GRAPH_CAPTURE_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_GRAPH_CAPTURE_H_

#include <cuda.h>

#include "cc/core/status.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// A capture that another thread invalidates is repeated until there were this
// many attempts.
inline constexpr int kMaxCaptures = 3;

// Calls enqueue(stream) and captures the work that it enqueues into a graph,
// which is ready to launch. `enqueue` may also use streams that fork from
// `stream` and join it again. Other code must not use `stream` during the call.
// `enqueue` is called again if another thread invalidates the capture, which
// cuCtxSynchronize does.
template <typename Enqueue>
StatusOr<GraphExec> CaptureGraph(const Device* device, CUstream stream,
                                 const Enqueue& enqueue) {
  for (int attempt = 1;; ++attempt) {
    // In thread-local mode, other threads may allocate and synchronise streams
    // during the capture.
    IOS_CUDA_RETURN_IF_ERROR(device, cuStreamBeginCapture, stream,
                             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    const Status enqueued = enqueue(stream);
    // The capture must be ended even if `enqueue` failed; otherwise, the stream
    // stays in capture mode.
    CUgraph captured = nullptr;
    const CUresult result =
        device->driver().cuStreamEndCapture(stream, &captured);
    const Graph graph(device, captured);
    if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED &&
        attempt < kMaxCaptures) {
      continue;
    }
    IOS_RETURN_IF_ERROR(enqueued);
    if (result != CUDA_SUCCESS) {
      return ToStatus(device->driver(), result, "cuStreamEndCapture");
    }
    CUgraphExec exec = nullptr;
    IOS_CUDA_RETURN_IF_ERROR(device, cuGraphInstantiateWithFlags, &exec,
                             captured, 0);
    return GraphExec(device, exec);
  }
}

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_GRAPH_CAPTURE_H_

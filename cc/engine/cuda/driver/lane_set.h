// Lanes of the CUDA backend: streams that fork from one stream and join it
// again.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_LANE_SET_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_LANE_SET_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/backend.h"
#include "cc/engine/cuda/cudnn/cudnn_handle.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// The lanes and the scratch memory that stages need of a LaneSet.
struct LaneNeeds {
  int lanes = 1;
  std::vector<int64_t> scratch_bytes;  // of each lane

  void Add(const std::vector<BoundStage>& stages);
};

// The lanes one caller has at a time: lane 0 is the caller's stream, the others
// are streams of the set. Needs the device's context to be current.
class LaneSet {
 public:
  static StatusOr<LaneSet> Create(const Device* device, const LaneNeeds& needs);

  // Enqueues the stages in order, each group of a stage on the lane of its
  // turn; later work on `main` comes after all of it, also if some of it could
  // not be enqueued. Can be captured.
  Status Enqueue(const std::vector<BoundStage>& stages,
                 const std::vector<void*>& tensors, CUstream main) const;

 private:
  struct Lane {
    Stream stream;  // none of lane 0
    Event done;
    std::shared_ptr<void> scratch;
  };

  // Lanes 1 to `lanes` - 1 begin after what `main` has done, or it goes on
  // after them.
  Status Fork(int lanes, CUstream main) const;
  Status Join(int lanes, CUstream main) const;
  Status EnqueueGroup(const std::vector<BoundTask>& group,
                      const std::vector<void*>& tensors, int lane,
                      CUstream stream) const;

  const Device* device_ = nullptr;
  std::shared_ptr<CudnnHandle> cudnn_;
  Event fork_;
  std::vector<Lane> lanes_;
};

// Captures `enqueue` - which enqueues on the stream it is given, and on streams
// that fork from it and join it - into a graph that is ready to launch. The
// stream is not one that others use.
template <typename Enqueue>
StatusOr<GraphExec> CaptureGraph(const Device* device, CUstream stream,
                                 const Enqueue& enqueue) {
  // Thread-local: other threads may allocate and synchronise meanwhile.
  IOS_CUDA_RETURN_IF_ERROR(device, cuStreamBeginCapture, stream,
                           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  const Status enqueued = enqueue(stream);
  // Ends the capture in any case.
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

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_LANE_SET_H_

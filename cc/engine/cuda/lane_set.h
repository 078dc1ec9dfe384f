// The lanes of the CUDA backend: streams that fork from one stream and join it
// again.
#ifndef IOS_TF_CC_ENGINE_CUDA_LANE_SET_H_
#define IOS_TF_CC_ENGINE_CUDA_LANE_SET_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/cudnn/cudnn_handle.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// The number of lanes, and the scratch memory of each lane, that certain stages
// need.
struct LaneNeeds {
  int lanes = 1;
  std::vector<int64_t> scratch_bytes;  // of each lane

  void Add(const std::vector<BoundStage>& stages);
  // Returns the number of bytes of all lanes.
  int64_t bytes() const;
};

// The lanes that one caller at a time uses. Lane 0 is the caller's stream; the
// set owns the streams of the other lanes. The device's context must be
// current.
class LaneSet {
 public:
  static StatusOr<LaneSet> Create(const Device* device, const LaneNeeds& needs);

  // Enqueues the stages in order. The groups of a stage are distributed to the
  // lanes in turn. Work that the caller enqueues on `main` afterwards runs
  // after all stages, even if some of the work could not be enqueued. This can
  // be captured into a CUDA graph. Unless `info` is null, NVIDIA's profilers
  // see the names of the operators.
  Status Enqueue(const std::vector<BoundStage>& stages,
                 const std::vector<void*>& tensors, CUstream main,
                 const ScheduleInfo* info = nullptr) const;

 private:
  struct Lane {
    Stream stream;  // null for lane 0
    Event done;
    std::shared_ptr<void> scratch;
  };

  // Fork() makes lanes 1 to `lanes` - 1 wait for the work on `main`. Join()
  // makes `main` wait for these lanes.
  Status Fork(int lanes, CUstream main) const;
  Status Join(int lanes, CUstream main) const;
  Status EnqueueGroup(const std::vector<BoundTask>& group,
                      const std::vector<void*>& tensors, int lane,
                      CUstream stream, const ScheduleInfo* info) const;

  const Device* device_ = nullptr;
  Event fork_;
  std::vector<Lane> lanes_;
  // This is the last member, so the handle is given back before the lanes'
  // streams are destroyed.
  std::shared_ptr<CudnnHandle> cudnn_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_LANE_SET_H_

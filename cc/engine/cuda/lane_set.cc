#include "cc/engine/cuda/lane_set.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "cc/engine/cuda/task.h"

namespace ios::cuda {
namespace {

// Returns the number of lanes that a stage uses: one per group, but at most
// stage.lanes.
int LanesOf(const BoundStage& stage) {
  return std::min<int>(stage.lanes, stage.groups.size());
}

}  // namespace

void LaneNeeds::Add(const std::vector<BoundStage>& stages) {
  for (const BoundStage& stage : stages) {
    const int used = LanesOf(stage);
    lanes = std::max(lanes, used);
    scratch_bytes.resize(lanes, 0);
    for (size_t g = 0; g < stage.groups.size(); ++g) {
      for (const BoundTask& bound : stage.groups[g]) {
        int64_t& bytes = scratch_bytes[g % used];
        bytes = std::max(
            bytes, static_cast<const CudaTask*>(bound.task)->scratch_bytes());
      }
    }
  }
}

int64_t LaneNeeds::bytes() const {
  return std::accumulate(scratch_bytes.begin(), scratch_bytes.end(),
                         int64_t{0});
}

StatusOr<LaneSet> LaneSet::Create(const Device* device,
                                  const LaneNeeds& needs) {
  LaneSet set;
  set.device_ = device;
  IOS_ASSIGN_OR_RETURN(set.cudnn_, TakeCudnnHandle(device));
  IOS_ASSIGN_OR_RETURN(set.fork_, MakeEvent(device, /*timing=*/false));
  for (int i = 0; i < needs.lanes; ++i) {
    Lane lane;
    if (i > 0) {
      IOS_ASSIGN_OR_RETURN(lane.stream, MakeStream(device));
      IOS_ASSIGN_OR_RETURN(lane.done, MakeEvent(device, /*timing=*/false));
    }
    if (i < static_cast<int>(needs.scratch_bytes.size()) &&
        needs.scratch_bytes[i] > 0) {
      IOS_ASSIGN_OR_RETURN(lane.scratch,
                           device->Allocate(needs.scratch_bytes[i]));
    }
    set.lanes_.push_back(std::move(lane));
  }
  return set;
}

Status LaneSet::EnqueueGroup(const std::vector<BoundTask>& group,
                             const std::vector<void*>& tensors, int lane,
                             CUstream stream, const ScheduleInfo* info) const {
  const LaneResources resources = {stream, lanes_[lane].scratch.get(),
                                   cudnn_.get()};
  std::vector<const void*> inputs;
  for (const BoundTask& bound : group) {
    inputs.clear();
    for (int i : bound.inputs) inputs.push_back(tensors[i]);
    std::optional<Device::Range> range;
    if (info) range.emplace(device_, info->tasks[bound.number].name);
    IOS_RETURN_IF_ERROR(
        static_cast<const CudaTask*>(bound.task)
            ->Enqueue(inputs.data(), tensors[bound.output], resources));
  }
  return Status();
}

Status LaneSet::Fork(int lanes, CUstream main) const {
  if (lanes == 1) return Status();
  IOS_CUDA_RETURN_IF_ERROR(device_, cuEventRecord, fork_.get(), main);
  for (int i = 1; i < lanes; ++i) {
    IOS_CUDA_RETURN_IF_ERROR(device_, cuStreamWaitEvent, lanes_[i].stream.get(),
                             fork_.get(), 0);
  }
  return Status();
}

Status LaneSet::Join(int lanes, CUstream main) const {
  for (int i = 1; i < lanes; ++i) {
    IOS_CUDA_RETURN_IF_ERROR(device_, cuEventRecord, lanes_[i].done.get(),
                             lanes_[i].stream.get());
    IOS_CUDA_RETURN_IF_ERROR(device_, cuStreamWaitEvent, main,
                             lanes_[i].done.get(), 0);
  }
  return Status();
}

Status LaneSet::Enqueue(const std::vector<BoundStage>& stages,
                        const std::vector<void*>& tensors, CUstream main,
                        const ScheduleInfo* info) const {
  for (const BoundStage& stage : stages) {
    const int lanes = LanesOf(stage);
    IOS_RETURN_IF_ERROR(Fork(lanes, main));
    Status status;
    for (size_t g = 0; g < stage.groups.size() && status.ok(); ++g) {
      const int lane = g % lanes;
      status = EnqueueGroup(stage.groups[g], tensors, lane,
                            lane == 0 ? main : lanes_[lane].stream.get(), info);
    }
    // Joins even after a failure, because work that is already enqueued must
    // finish before the caller's next work uses the memory.
    const Status joined = Join(lanes, main);
    IOS_RETURN_IF_ERROR(status);
    IOS_RETURN_IF_ERROR(joined);
  }
  return Status();
}

}  // namespace ios::cuda

#include "cc/engine/cuda/slices.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cc/engine/cuda/kernels/kernels.h"
#include "cc/engine/cuda/task.h"

namespace ios::cuda {
namespace {

// A part of a tensor's channels that is copied to an output.
struct Slice {
  DataType dtype = DataType::kFloat32;
  int64_t bytes = 0;  // from the tensor's begin to the slice's
  CopyKernel::Views views;
};

// Copies slices of the first input. The first slice is written to the output.
// Because a BoundTask has only one output, the tensors for the other slices are
// listed as further inputs, although the task writes to them.
class SliceTask : public CudaTask {
 public:
  static StatusOr<std::unique_ptr<Task>> Create(const Device* device,
                                                std::vector<Slice> slices) {
    std::vector<CopyKernel::Views> views;
    for (const Slice& slice : slices) views.push_back(slice.views);
    IOS_ASSIGN_OR_RETURN(CopyKernel kernel,
                         CopyKernel::Create(device, slices[0].dtype, views));
    return std::unique_ptr<Task>(
        new SliceTask(std::move(kernel), std::move(slices)));
  }

  Status Enqueue(const void* const* inputs, void* output,
                 const LaneResources& lane) const override {
    std::vector<const void*> from;
    std::vector<void*> to = {output};
    for (size_t i = 0; i < slices_.size(); ++i) {
      from.push_back(static_cast<const char*>(inputs[0]) + slices_[i].bytes);
      if (i > 0) to.push_back(const_cast<void*>(inputs[i]));
    }
    return kernel_.Enqueue(from.data(), to.data(), lane.stream);
  }

  const std::vector<Slice>& slices() const { return slices_; }

 private:
  SliceTask(CopyKernel kernel, std::vector<Slice> slices)
      : kernel_(std::move(kernel)), slices_(std::move(slices)) {}

  const CopyKernel kernel_;
  const std::vector<Slice> slices_;
};

const SliceTask* AsSlice(const BoundTask& bound) {
  return dynamic_cast<const SliceTask*>(bound.task);
}

// Tasks of `group` that begin with task `begin` copy slices of one tensor.
// Returns the index after the last of these tasks.
size_t EndOfSlices(const std::vector<BoundTask>& group, size_t begin) {
  size_t end = begin;
  while (end < group.size() && AsSlice(group[end]) &&
         group[end].inputs == group[begin].inputs) {
    ++end;
  }
  return end;
}

}  // namespace

TensorView ChannelsOf(const TensorView& view, int64_t channel,
                      const Shape& shape) {
  TensorView part{shape, view.pitch, view.alignment};
  while (channel % part.alignment != 0) part.alignment /= 2;
  return part;
}

TaskOr CompileSlice(const Device* device, const TaskSpec& spec) {
  const int64_t offset = spec.op->offset;
  Slice slice;
  slice.dtype = spec.dtype;
  slice.bytes = offset * SizeOf(spec.dtype);
  slice.views = {ChannelsOf(spec.inputs[0], offset, spec.output.shape),
                 spec.output};
  return SliceTask::Create(device, {slice});
}

StatusOr<std::vector<std::unique_ptr<Task>>> JoinSlices(
    const Device* device, std::vector<BoundStage>* stages) {
  std::vector<std::unique_ptr<Task>> tasks;
  for (BoundStage& stage : *stages) {
    for (std::vector<BoundTask>& group : stage.groups) {
      std::vector<BoundTask> joined;
      for (size_t begin = 0, end; begin < group.size(); begin = end) {
        end = std::max(begin + 1, EndOfSlices(group, begin));
        BoundTask first = group[begin];
        if (end - begin > 1) {
          std::vector<Slice> slices;
          for (size_t i = begin; i < end; ++i) {
            slices.push_back(AsSlice(group[i])->slices()[0]);
            if (i > begin) first.inputs.push_back(group[i].output);
          }
          IOS_ASSIGN_OR_RETURN(std::unique_ptr<Task> task,
                               SliceTask::Create(device, std::move(slices)));
          first.task = task.get();
          tasks.push_back(std::move(task));
        }
        joined.push_back(std::move(first));
      }
      group = std::move(joined);
    }
  }
  return tasks;
}

}  // namespace ios::cuda

#include "cc/engine/cuda/measure_work.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <random>
#include <utility>

#include "cc/engine/cuda/lane_set.h"

namespace ios::cuda {
namespace {

// Runs in one measurement, and measurements whose median counts.
constexpr int kRuns = 10;
constexpr int kMeasurements = 7;

// Random numbers, which repeat in larger tensors.
constexpr int64_t kPatternElements = 1 << 16;

}  // namespace

StatusOr<std::vector<float>> MeasureWork(const Device* device,
                                         const std::vector<Enqueuer>& works) {
  // One at a time: they would disturb each other.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  IOS_ASSIGN_OR_RETURN(const Stream stream, MakeStream(device));
  const FinishAtEnd finish(device, stream.get());
  IOS_ASSIGN_OR_RETURN(const Event start, MakeEvent(device, /*timing=*/true));
  IOS_ASSIGN_OR_RETURN(const Event stop, MakeEvent(device, /*timing=*/true));
  // Graphs, so that no time of the host's is measured, and since that is how the
  // work runs later.
  std::vector<GraphExec> graphs(works.size());
  for (size_t i = 0; i < works.size(); ++i) {
    StatusOr<GraphExec> graph =
        CaptureGraph(device, stream.get(), [&](CUstream capture) -> Status {
          for (int run = 0; run < kRuns; ++run) {
            IOS_RETURN_IF_ERROR(works[i](capture));
          }
          return Status();
        });
    if (!graph.ok()) continue;
    graphs[i] = std::move(*graph);
    IOS_CUDA_RETURN_IF_ERROR(device, cuGraphLaunch, graphs[i].get(),
                             stream.get());
  }
  std::vector<std::vector<float>> measured(works.size());
  for (int round = 0; round < kMeasurements; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      if (!graphs[i]) continue;
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventRecord, start.get(),
                               stream.get());
      IOS_CUDA_RETURN_IF_ERROR(device, cuGraphLaunch, graphs[i].get(),
                               stream.get());
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventRecord, stop.get(),
                               stream.get());
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventSynchronize, stop.get());
      float milliseconds = 0;
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventElapsedTime, &milliseconds,
                               start.get(), stop.get());
      measured[i].push_back(milliseconds);
    }
  }
  std::vector<float> medians;
  for (std::vector<float>& times : measured) {
    if (times.empty()) {
      medians.push_back(std::numeric_limits<float>::infinity());
      continue;
    }
    const auto middle = times.begin() + times.size() / 2;
    std::nth_element(times.begin(), middle, times.end());
    medians.push_back(*middle);
  }
  return medians;
}

ConvolutionTensors::ConvolutionTensors(const Device* device, DataType dtype)
    : device_(device), dtype_(dtype) {
  std::minstd_rand random;
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(kPatternElements);
  for (float& value : values) value = uniform(random);
  pattern_.resize(kPatternElements * SizeOf(dtype));
  ConvertFromFloat(values.data(), kPatternElements, dtype, pattern_.data());
}

StatusOr<ConvolutionTensors> ConvolutionTensors::Create(
    const Device* device, const ConvolutionSpec& spec) {
  ConvolutionTensors tensors(device, spec.dtype);
  ConvolutionPointers& pointers = tensors.pointers_;
  IOS_ASSIGN_OR_RETURN(pointers.input, tensors.Make(spec.input));
  IOS_ASSIGN_OR_RETURN(pointers.filter, tensors.Make(FilterView(spec)));
  if (spec.bias) {
    IOS_ASSIGN_OR_RETURN(pointers.bias,
                         tensors.Make(DenseView({spec.output.channels()})));
  }
  if (spec.residual) {
    IOS_ASSIGN_OR_RETURN(pointers.residual, tensors.Make(*spec.residual));
  }
  IOS_ASSIGN_OR_RETURN(pointers.output, tensors.Make(spec.output));
  // The copies are on the default stream, which no stream of ours waits for.
  IOS_CUDA_RETURN_IF_ERROR(device, cuStreamSynchronize, nullptr);
  return tensors;
}

Status ConvolutionTensors::MakeWorkspace(int64_t bytes) {
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, device_->Allocate(bytes));
  pointers_.workspace = memory.get();
  memory_.push_back(std::move(memory));
  return Status();
}

StatusOr<void*> ConvolutionTensors::Make(const TensorView& view) {
  const int64_t bytes = SpanBytes(view, dtype_);
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, device_->Allocate(bytes));
  const auto start = reinterpret_cast<CUdeviceptr>(memory.get());
  const int64_t step = pattern_.size();
  for (int64_t done = 0; done < bytes; done += step) {
    IOS_CUDA_RETURN_IF_ERROR(device_, cuMemcpyHtoD, start + done,
                             pattern_.data(), std::min(step, bytes - done));
  }
  memory_.push_back(memory);
  return memory.get();
}

}  // namespace ios::cuda

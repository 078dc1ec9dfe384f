#include "cc/engine/cuda/plan_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/engine/cuda/lane_set.h"
#include "cc/engine/cuda/plan_cache.h"

namespace ios::cuda {
namespace {

// Plans that are timed, beside one of every engine: what is fast is among the first
// that heuristics propose. Fewer are compiled for it, as that takes far longer.
constexpr int kTimedPlans = 16;
constexpr int kCompiledPlans = 3;
// Every lane has memory of this size at most.
constexpr int64_t kMaxWorkspaceBytes = 64 << 20;
// Runs of a plan in one measurement, and measurements whose median counts.
constexpr int kRuns = 10;
constexpr int kMeasurements = 7;

// Random numbers, which repeat in larger tensors.
constexpr int64_t kPatternElements = 1 << 16;

struct Candidate {
  std::string name;
  std::shared_ptr<const CudnnPlan> plan;
  GraphExec exec;                    // kRuns runs; none if it cannot be captured
  std::vector<float> measurements;   // milliseconds
  float milliseconds = std::numeric_limits<float>::infinity();
};

// Random tensors for a spec on the device: power, and so speed, depends on the
// values.
class Buffers {
 public:
  static StatusOr<Buffers> Create(const Device* device,
                                  const ConvolutionSpec& spec) {
    Buffers buffers(device, spec.dtype);
    const int64_t filters = spec.output.channels();
    const TensorView filter =
        DenseView({filters, spec.kernel[0], spec.kernel[1],
                   spec.input.channels() / spec.groups});
    IOS_ASSIGN_OR_RETURN(buffers.pointers_.input, buffers.Make(spec.input));
    IOS_ASSIGN_OR_RETURN(buffers.pointers_.filter, buffers.Make(filter));
    if (spec.bias) {
      IOS_ASSIGN_OR_RETURN(buffers.pointers_.bias,
                           buffers.Make(DenseView({filters})));
    }
    if (spec.residual) {
      IOS_ASSIGN_OR_RETURN(buffers.pointers_.residual,
                           buffers.Make(*spec.residual));
    }
    IOS_ASSIGN_OR_RETURN(buffers.pointers_.output, buffers.Make(spec.output));
    // The copies are on the default stream, which no stream of ours waits for.
    IOS_CUDA_RETURN_IF_ERROR(device, cuStreamSynchronize, nullptr);
    return buffers;
  }

  Status MakeWorkspace(int64_t bytes) {
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                         device_->Allocate(bytes));
    pointers_.workspace = memory.get();
    memory_.push_back(std::move(memory));
    return Status();
  }

  const ConvolutionPointers& pointers() const { return pointers_; }

 private:
  Buffers(const Device* device, DataType dtype)
      : device_(device), dtype_(dtype) {
    std::minstd_rand random;
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(kPatternElements);
    for (float& value : values) value = uniform(random);
    pattern_.resize(kPatternElements * SizeOf(dtype));
    ConvertFromFloat(values.data(), kPatternElements, dtype, pattern_.data());
  }

  StatusOr<void*> Make(const TensorView& view) {
    const int64_t bytes = SpanBytes(view, dtype_);
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                         device_->Allocate(bytes));
    const auto start = reinterpret_cast<CUdeviceptr>(memory.get());
    const int64_t step = pattern_.size();
    for (int64_t done = 0; done < bytes; done += step) {
      IOS_CUDA_RETURN_IF_ERROR(device_, cuMemcpyHtoD, start + done,
                               pattern_.data(), std::min(step, bytes - done));
    }
    memory_.push_back(memory);
    return memory.get();
  }

  const Device* device_;
  DataType dtype_;
  std::vector<char> pattern_;
  std::vector<std::shared_ptr<void>> memory_;
  ConvolutionPointers pointers_;
};

// Builds candidate `index`; nothing if it cannot be used.
std::optional<Candidate> Build(const CudnnGraph& graph, size_t index) {
  StatusOr<std::shared_ptr<const CudnnPlan>> plan = graph.Build(index);
  if (!plan.ok() || (*plan)->workspace_bytes() > kMaxWorkspaceBytes) {
    return std::nullopt;
  }
  Candidate candidate;
  candidate.name = graph.candidates()[index].name;
  candidate.plan = std::move(*plan);
  return candidate;
}

// The plans worth timing. One of every engine, since heuristics see neither that an
// engine copies tensors that are not dense nor how much faster another one is.
std::vector<Candidate> BuildSome(const CudnnGraph& graph) {
  std::vector<Candidate> candidates;
  std::set<std::string> engines;
  int ready = 0, compiled = 0;
  for (size_t i = 0; i < graph.candidates().size(); ++i) {
    const CudnnCandidate& proposed = graph.candidates()[i];
    if (proposed.compiles ? compiled == kCompiledPlans
                          : ready >= kTimedPlans &&
                                engines.count(proposed.Engine())) {
      continue;
    }
    // Also a failure to compile takes its time.
    if (proposed.compiles) ++compiled;
    std::optional<Candidate> candidate = Build(graph, i);
    if (!candidate) continue;
    if (!proposed.compiles) ++ready;
    engines.insert(proposed.Engine());
    candidates.push_back(std::move(*candidate));
  }
  return candidates;
}

// Runs each candidate once, and drops those that fail.
Status Warm(const Device* device, CUstream stream, Buffers* buffers,
            std::vector<Candidate>* candidates) {
  int64_t workspace = 0;
  for (const Candidate& candidate : *candidates) {
    workspace = std::max(workspace, candidate.plan->workspace_bytes());
  }
  IOS_RETURN_IF_ERROR(buffers->MakeWorkspace(workspace));
  std::vector<Candidate> working;
  for (Candidate& candidate : *candidates) {
    if (!candidate.plan->Enqueue(buffers->pointers(), stream).ok()) continue;
    // An error of a kernel itself spoils the context: no use in going on.
    IOS_CUDA_RETURN_IF_ERROR(device, cuStreamSynchronize, stream);
    working.push_back(std::move(candidate));
  }
  *candidates = std::move(working);
  return Status();
}

// Times the candidates in turn and moves the fastest to the front.
Status Time(const Device* device, const ConvolutionPointers& pointers,
            CUstream stream, std::vector<Candidate>* candidates) {
  IOS_ASSIGN_OR_RETURN(const Event start, MakeEvent(device, /*timing=*/true));
  IOS_ASSIGN_OR_RETURN(const Event stop, MakeEvent(device, /*timing=*/true));
  // Graphs, so that no time of the host's is measured, and since that is how plans
  // run later.
  for (Candidate& candidate : *candidates) {
    StatusOr<GraphExec> exec =
        CaptureGraph(device, stream, [&](CUstream capture) -> Status {
          for (int i = 0; i < kRuns; ++i) {
            IOS_RETURN_IF_ERROR(candidate.plan->Enqueue(pointers, capture));
          }
          return Status();
        });
    if (!exec.ok()) continue;
    candidate.exec = std::move(*exec);
    IOS_CUDA_RETURN_IF_ERROR(device, cuGraphLaunch, candidate.exec.get(),
                             stream);
  }
  for (int i = 0; i < kMeasurements; ++i) {
    for (Candidate& candidate : *candidates) {
      if (!candidate.exec) continue;
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventRecord, start.get(), stream);
      IOS_CUDA_RETURN_IF_ERROR(device, cuGraphLaunch, candidate.exec.get(),
                               stream);
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventRecord, stop.get(), stream);
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventSynchronize, stop.get());
      float milliseconds = 0;
      IOS_CUDA_RETURN_IF_ERROR(device, cuEventElapsedTime, &milliseconds,
                               start.get(), stop.get());
      candidate.measurements.push_back(milliseconds);
    }
  }
  IOS_CUDA_RETURN_IF_ERROR(device, cuStreamSynchronize, stream);
  for (Candidate& candidate : *candidates) {
    std::vector<float>& measurements = candidate.measurements;
    if (measurements.empty()) continue;
    const auto middle = measurements.begin() + measurements.size() / 2;
    std::nth_element(measurements.begin(), middle, measurements.end());
    candidate.milliseconds = *middle;
  }
  // Stable: those that could not be captured stay in cuDNN's order.
  std::stable_sort(candidates->begin(), candidates->end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.milliseconds < b.milliseconds;
                   });
  return Status();
}

std::string Describe(const Device* device, int64_t cudnn_version) {
  return device->name() + " sm_" + std::to_string(device->compute_capability()) +
         " " + std::to_string(device->multiprocessors()) + " driver " +
         std::to_string(device->driver_version()) + " cudnn " +
         std::to_string(cudnn_version);
}

StatusOr<std::shared_ptr<const CudnnPlan>> Search(
    const Device* device, const ConvolutionSpec& spec,
    const std::string& convolution) {
  IOS_ASSIGN_OR_RETURN(const int64_t version, CudnnVersion(device));
  const std::string device_name = Describe(device, version);
  IOS_ASSIGN_OR_RETURN(const std::unique_ptr<CudnnGraph> graph,
                       CudnnGraph::Create(device, spec));

  IOS_ASSIGN_OR_RETURN(const Stream stream, MakeStream(device));
  StatusOr<Buffers> buffers = Buffers::Create(device, spec);
  const auto warm = [&](std::vector<Candidate>* candidates) -> Status {
    IOS_RETURN_IF_ERROR(buffers.status());
    return Warm(device, stream.get(), &*buffers, candidates);
  };

  PlanCache& cache = PlanCache::Get();
  const std::vector<CudnnCandidate>& proposed = graph->candidates();
  if (const std::optional<std::string> name =
          cache.Find(device_name, convolution)) {
    const auto found =
        std::find_if(proposed.begin(), proposed.end(),
                     [&](const CudnnCandidate& c) { return c.name == *name; });
    std::optional<Candidate> known;
    if (found != proposed.end()) known = Build(*graph, found - proposed.begin());
    if (known) {
      const std::shared_ptr<const CudnnPlan> plan = known->plan;
      std::vector<Candidate> candidates;
      candidates.push_back(std::move(*known));
      const Status status = warm(&candidates);
      if (status.code() == StatusCode::kResourceExhausted) return plan;
      IOS_RETURN_IF_ERROR(status);
      if (!candidates.empty()) return plan;
    }
  }

  std::vector<Candidate> candidates = BuildSome(*graph);
  if (candidates.empty()) {
    return Unimplemented("none of cuDNN's " + std::to_string(proposed.size()) +
                         " plans can be built with a workspace of " +
                         std::to_string(kMaxWorkspaceBytes >> 20) + " MiB");
  }
  const std::shared_ptr<const CudnnPlan> first = candidates[0].plan;
  Status status = warm(&candidates);
  if (status.ok() && candidates.empty()) {
    return Unimplemented("none of cuDNN's plans runs");
  }
  if (status.ok()) {
    status = Time(device, buffers->pointers(), stream.get(), &candidates);
  }
  // No room to try them in: cuDNN's first choice, for this process.
  if (status.code() == StatusCode::kResourceExhausted) return first;
  IOS_RETURN_IF_ERROR(status);
  cache.Insert(device_name, convolution, candidates[0].name);
  return candidates[0].plan;
}

}  // namespace

StatusOr<std::shared_ptr<const CudnnPlan>> FindPlan(
    const Device* device, const ConvolutionSpec& spec) {
  // One search at a time: they would disturb each other's measurements.
  static std::mutex mutex;
  using Key = std::pair<const Device*, std::string>;
  static auto* plans = new std::map<Key, std::weak_ptr<const CudnnPlan>>;
  std::lock_guard<std::mutex> lock(mutex);
  const std::string convolution = ToString(spec);
  std::weak_ptr<const CudnnPlan>& shared = (*plans)[{device, convolution}];
  if (std::shared_ptr<const CudnnPlan> plan = shared.lock()) return plan;
  const Device::Scope scope(device);
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<const CudnnPlan> plan,
                       Search(device, spec, convolution));
  shared = plan;
  return plan;
}

}  // namespace ios::cuda

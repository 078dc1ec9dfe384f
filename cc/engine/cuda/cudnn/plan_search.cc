#include "cc/engine/cuda/cudnn/plan_search.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/engine/cuda/cudnn/convolution_tensors.h"
#include "cc/engine/cuda/cudnn/cudnn_handle.h"
#include "cc/engine/cuda/cudnn/plan_cache.h"
#include "cc/engine/cuda/driver/code_cache.h"
#include "cc/engine/cuda/timing/measure_work.h"
#include "cc/engine/host/shared_objects.h"

namespace ios::cuda {
namespace {

// If fewer than kEnoughPlans plans are ready (precompiled), kCompiledPlans more
// are compiled, which takes a third of a second each.
constexpr size_t kCompiledPlans = 3;
constexpr size_t kEnoughPlans = 8;
// A plan's workspace may have kSmallWorkspaceBytes, or kWorkspaceTensors times
// the size of the convolution's tensors if that is more: plans that pad
// channels copy all of these tensors.
constexpr int64_t kSmallWorkspaceBytes = 64 << 20;
constexpr int64_t kWorkspaceTensors = 2;

using Plan = std::shared_ptr<const CudnnPlan>;

struct Candidate {
  std::string name;
  Plan plan;
};

int64_t MaxWorkspaceBytes(const ConvolutionSpec& spec) {
  int64_t bytes = 0;
  for (const TensorView& view : {spec.input, FilterView(spec), spec.output}) {
    bytes += NumElements(view.shape) * SizeOf(spec.dtype);
  }
  return std::max(kSmallWorkspaceBytes, kWorkspaceTensors * bytes);
}

// Builds a candidate. Returns nullopt if the candidate cannot be used.
std::optional<Candidate> Build(const CudnnGraph& graph,
                               const ConvolutionSpec& spec, size_t index) {
  StatusOr<Plan> plan = graph.Build(index);
  if (!plan.ok() || (*plan)->workspace_bytes() > MaxWorkspaceBytes(spec)) {
    return std::nullopt;
  }
  return Candidate{graph.candidates()[index].name, std::move(*plan)};
}

bool AllDense(const ConvolutionSpec& spec) {
  return IsDense(spec.input, spec.dtype) && IsDense(spec.output, spec.dtype) &&
         (!spec.residual || IsDense(*spec.residual, spec.dtype));
}

// Builds the candidates with these indices, and drops those that cannot be
// used. Several threads share the work, because compiling a candidate takes a
// third of a second on one core.
std::vector<Candidate> BuildInThreads(const Device* device,
                                      const CudnnGraph& graph,
                                      const ConvolutionSpec& spec,
                                      const std::vector<size_t>& indices) {
  std::vector<std::optional<Candidate>> built(indices.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    const Device::Scope scope(device);
    for (size_t i; (i = next++) < indices.size();) {
      built[i] = Build(graph, spec, indices[i]);
    }
  };
  std::vector<std::thread> helpers;
  const size_t most =
      std::min<size_t>(std::thread::hardware_concurrency(), indices.size());
  try {
    while (helpers.size() + 1 < most) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // If no more threads can be started, the existing threads do the work.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  std::vector<Candidate> candidates;
  for (std::optional<Candidate>& one : built) {
    if (one) candidates.push_back(std::move(*one));
  }
  return candidates;
}

// Builds the plans that are then timed. These are all plans that are ready
// (precompiled), because cuDNN's heuristics do not know which engines copy
// tensors that are not dense. If few plans are ready, some plans that must be
// compiled are added. If tensors are not dense, all of them are added, because
// nearly all ready plans copy tensors that are not dense.
std::vector<Candidate> BuildAll(const Device* device, const CudnnGraph& graph,
                                const ConvolutionSpec& spec) {
  std::vector<Candidate> candidates;
  std::vector<size_t> compiled;
  for (size_t i = 0; i < graph.candidates().size(); ++i) {
    if (graph.candidates()[i].compiles) {
      compiled.push_back(i);
    } else if (std::optional<Candidate> ready = Build(graph, spec, i)) {
      candidates.push_back(std::move(*ready));
    }
  }
  if (AllDense(spec)) {
    const size_t most = candidates.size() < kEnoughPlans ? kCompiledPlans : 0;
    compiled.resize(std::min(compiled.size(), most));
  }
  for (Candidate& candidate : BuildInThreads(device, graph, spec, compiled)) {
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// Runs each candidate once, and drops those that fail. Makes the tensors if
// they do not exist yet.
Status Warm(const Device* device, const ConvolutionSpec& spec,
            std::optional<ConvolutionTensors>* tensors,
            std::vector<Candidate>* candidates) {
  if (!*tensors) {
    IOS_ASSIGN_OR_RETURN(*tensors, ConvolutionTensors::Create(device, spec));
  }
  int64_t workspace = 0;
  for (const Candidate& candidate : *candidates) {
    workspace = std::max(workspace, candidate.plan->workspace_bytes());
  }
  IOS_RETURN_IF_ERROR((*tensors)->MakeWorkspace(workspace));
  IOS_ASSIGN_OR_RETURN(const Stream stream, MakeStream(device));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<CudnnHandle> handle,
                       TakeCudnnHandle(device));
  std::vector<Candidate> working;
  for (Candidate& candidate : *candidates) {
    const Status status = candidate.plan->Enqueue((*tensors)->pointers(),
                                                  stream.get(), handle.get());
    // Waits for the stream even after a failure, because a part of the work may
    // be running. An error here comes from a kernel and makes the context
    // unusable.
    IOS_CUDA_RETURN_IF_ERROR(device, cuStreamSynchronize, stream.get());
    if (status.ok()) working.push_back(std::move(candidate));
  }
  *candidates = std::move(working);
  return Status();
}

// Finds the fastest candidate.
StatusOr<Comparison> Fastest(const Device* device,
                             const ConvolutionTensors& tensors,
                             const std::vector<Candidate>& candidates) {
  if (candidates.size() == 1) return Comparison{0, /*is_certain=*/true};
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<CudnnHandle> handle,
                       TakeCudnnHandle(device));
  std::vector<Enqueuer> works;
  for (const Candidate& candidate : candidates) {
    works.push_back([&](CUstream stream) {
      return candidate.plan->Enqueue(tensors.pointers(), stream, handle.get());
    });
  }
  return CompareCold(device, works, [&](CUstream stream) {
    return tensors.ReadActivations(stream);
  });
}

// Builds the plan with this name. Returns nullopt if cuDNN no longer proposes
// this plan, or if the plan cannot be used.
std::optional<Candidate> Recall(const Device* device,
                                const ConvolutionSpec& spec,
                                const std::string& name) {
  const StatusOr<std::unique_ptr<CudnnGraph>> graph =
      CudnnGraph::Create(device, spec, name);
  if (!graph.ok()) return std::nullopt;
  const std::vector<CudnnCandidate>& proposed = (*graph)->candidates();
  for (size_t i = 0; i < proposed.size(); ++i) {
    if (proposed[i].name == name) return Build(**graph, spec, i);
  }
  return std::nullopt;
}

// Returns the key of a plan in CodeCache.
std::string PlanKey(const std::string& device_name,
                    const std::string& convolution, const std::string& name) {
  return "cuDNN plan " + name + "\n" + convolution + "\n" + device_name;
}

// Loads the plan that CodeCache has for the key. Returns nullopt if CodeCache
// has none, or if cuDNN rejects it.
std::optional<Candidate> Reload(const Device* device,
                                const ConvolutionSpec& spec,
                                const std::string& name,
                                const std::string& key) {
  const std::optional<std::string> json = CodeCache::Get().Find(key);
  if (!json) return std::nullopt;
  StatusOr<Plan> plan = LoadCudnnPlan(device, spec, *json);
  if (!plan.ok() || (*plan)->workspace_bytes() > MaxWorkspaceBytes(spec)) {
    return std::nullopt;
  }
  return Candidate{name, std::move(*plan)};
}

void Keep(const CudnnPlan& plan, const std::string& key) {
  const StatusOr<std::string> json = plan.Json();
  if (json.ok()) CodeCache::Get().Insert(key, *json);
}

// Runs a candidate once and returns its plan. Returns null if it fails. If
// there is not enough memory to run it, returns its plan, too.
StatusOr<Plan> WarmOne(const Device* device, const ConvolutionSpec& spec,
                       std::optional<ConvolutionTensors>* tensors,
                       Candidate candidate) {
  std::vector<Candidate> candidates = {candidate};
  const Status status = Warm(device, spec, tensors, &candidates);
  if (status.code() != StatusCode::kResourceExhausted) {
    IOS_RETURN_IF_ERROR(status);
    if (candidates.empty()) return Plan();
  }
  return candidate.plan;
}

// Returns the spec's plan with this name, or null if it does not work.
StatusOr<Plan> FindKnown(const Device* device, const ConvolutionSpec& spec,
                         const std::string& convolution,
                         const std::string& name) {
  const std::string key = PlanKey(PlanCacheName(device), convolution, name);
  std::optional<ConvolutionTensors> tensors;
  for (const bool kept : {true, false}) {
    std::optional<Candidate> known =
        kept ? Reload(device, spec, name, key) : Recall(device, spec, name);
    if (!known) continue;
    IOS_ASSIGN_OR_RETURN(Plan plan,
                         WarmOne(device, spec, &tensors, std::move(*known)));
    if (!plan) continue;
    if (!kept) Keep(*plan, key);
    return plan;
  }
  return Plan();
}

Status CannotBuild(const CudnnGraph& graph, const ConvolutionSpec& spec) {
  return Unimplemented("none of cuDNN's " +
                       std::to_string(graph.candidates().size()) +
                       " plans can be built with a workspace of at most " +
                       std::to_string(MaxWorkspaceBytes(spec) >> 20) + " MiB");
}

Status AllFail() {
  return Unimplemented(
      "all of cuDNN's plans for this convolution fail when they run");
}

// Returns the first plan that works. Precompiled plans come first.
StatusOr<Plan> FindFirst(const Device* device, const ConvolutionSpec& spec) {
  IOS_ASSIGN_OR_RETURN(const std::unique_ptr<CudnnGraph> graph,
                       CudnnGraph::Create(device, spec));
  std::optional<ConvolutionTensors> tensors;
  Status failure = CannotBuild(*graph, spec);
  for (const bool compiles : {false, true}) {
    for (size_t i = 0; i < graph->candidates().size(); ++i) {
      if (graph->candidates()[i].compiles != compiles) continue;
      std::optional<Candidate> candidate = Build(*graph, spec, i);
      if (!candidate) continue;
      IOS_ASSIGN_OR_RETURN(
          Plan plan, WarmOne(device, spec, &tensors, std::move(*candidate)));
      if (plan) return plan;
      failure = AllFail();
    }
  }
  return failure;
}

struct TimedPlan {
  Plan plan;
  std::string name;  // in the plan cache; empty if plans could not be timed
};

// Times plans and returns the fastest one.
StatusOr<TimedPlan> FindFastest(const Device* device,
                                const ConvolutionSpec& spec,
                                const std::string& convolution) {
  IOS_ASSIGN_OR_RETURN(const std::unique_ptr<CudnnGraph> graph,
                       CudnnGraph::Create(device, spec));
  std::vector<Candidate> candidates = BuildAll(device, *graph, spec);
  if (candidates.empty()) return CannotBuild(*graph, spec);
  const Plan first = candidates[0].plan;
  std::optional<ConvolutionTensors> tensors;
  const Status status = Warm(device, spec, &tensors, &candidates);
  // If there is not enough memory to time the plans, uses cuDNN's first choice,
  // but does not store it.
  if (status.code() == StatusCode::kResourceExhausted) {
    return TimedPlan{first, ""};
  }
  IOS_RETURN_IF_ERROR(status);
  if (candidates.empty()) return AllFail();
  IOS_ASSIGN_OR_RETURN(const Comparison comparison,
                       Fastest(device, *tensors, candidates));
  const Candidate& best = candidates[comparison.fastest];
  const std::string device_name = PlanCacheName(device);
  PlanCache::Get().Insert(device_name, convolution, best.name,
                          comparison.is_certain);
  Keep(*best.plan, PlanKey(device_name, convolution, best.name));
  return TimedPlan{best.plan, best.name};
}

}  // namespace

std::string PlanCacheName(const Device* device) {
  return device->name() + " sm_" +
         std::to_string(device->compute_capability()) + " " +
         std::to_string(device->multiprocessors()) + " driver " +
         std::to_string(device->cuda_major()) + " cudnn " +
         std::to_string(CudnnVersion(device));
}

StatusOr<Plan> FindPlan(const Device* device, const ConvolutionSpec& spec,
                        bool may_measure) {
  struct Key {
    int device;
    std::string convolution;
    std::string plan;  // its name, or why it has none
    bool operator<(const Key& o) const {
      return std::tie(device, convolution, plan) <
             std::tie(o.device, o.convolution, o.plan);
    }
  };
  static auto* const plans = new SharedObjects<Key, const CudnnPlan>;
  static auto* const searches = new SharedObjects<Key, std::mutex>;
  const std::string convolution = ToString(spec);
  const auto key = [&](const std::string& plan) {
    return Key{device->ordinal(), convolution, plan};
  };
  const Key untimed = key(may_measure ? "no memory to time plans" : "untimed");
  // Threads that need plans for equal specs wait for one search. Searches for
  // different specs run at the same time, but measure one after the other.
  std::shared_ptr<std::mutex> search = searches->Find(untimed);
  if (!search) search = searches->Put(untimed, std::make_shared<std::mutex>());
  std::lock_guard<std::mutex> lock(*search);
  const Device::Scope scope(device);
  Plan plan;
  // The plan cache comes first, because another process may have found a faster
  // plan since.
  const std::optional<std::string> known =
      PlanCache::Get().Find(PlanCacheName(device), convolution);
  if (known) {
    plan = plans->Find(key(*known));
    if (plan) return plan;
    IOS_ASSIGN_OR_RETURN(plan, FindKnown(device, spec, convolution, *known));
    if (plan) return plans->Put(key(*known), std::move(plan));
  }
  plan = plans->Find(untimed);
  if (plan) return plan;
  if (!may_measure) {
    IOS_ASSIGN_OR_RETURN(plan, FindFirst(device, spec));
    return plans->Put(untimed, std::move(plan));
  }
  IOS_ASSIGN_OR_RETURN(TimedPlan timed, FindFastest(device, spec, convolution));
  return plans->Put(timed.name.empty() ? untimed : key(timed.name),
                    std::move(timed.plan));
}

}  // namespace ios::cuda

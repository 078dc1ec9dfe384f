#include "cc/engine/cuda/cudnn/cudnn_graph.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "cc/engine/cuda/cudnn/frontend.h"
#include "cc/engine/cuda/cudnn/operation_graph.h"

namespace ios::cuda {
namespace {

// Returns the engines that cuDNN's heuristics propose in one mode. Empty if the
// heuristics fail.
fe::EngineConfigList Propose(fe::OperationGraph* graph,
                             cudnnBackendHeurMode_t mode) {
  try {
    fe::EngineHeuristics heuristics = fe::EngineHeuristicsBuilder_v8()
                                          .setOperationGraph(*graph)
                                          .setHeurMode(mode)
                                          .build();
    return heuristics.getEngineConfig(heuristics.getEngineConfigCount());
  } catch (const fe::cudnnException&) {
    return {};
  }
}

// Returns the engines that fuse any graph and that the heuristics propose for
// the spec. Empty if the heuristics do not propose such an engine.
fe::EngineConfigList ProposeFree(const ConvolutionSpec& spec,
                                 cudnnHandle_t handle) {
  try {
    fe::OperationGraph graph = MakeGraph(spec, /*identity=*/true, handle);
    return Propose(&graph, CUDNN_HEUR_MODE_A);
  } catch (const fe::cudnnException&) {
    return {};
  }
}

template <cudnnBackendNumericalNote_t... kNotes>
bool HasAny(cudnnBackendDescriptor_t config) {
  return (fe::hasNumericalNote<kNotes>(config) || ...);
}

// Returns whether an engine computes less precisely than requested, is not
// deterministic, or uses FFT or Winograd's algorithm. With these transforms,
// outputs share rounding errors: a bright pixel also affects outputs whose
// windows do not contain it.
bool Unwanted(const ConvolutionSpec& spec,
              const fe::ManagedOpaqueDescriptor& config) {
  const cudnnBackendDescriptor_t raw = config->get_backend_descriptor();
  if (HasAny<CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
             CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
             CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>(raw)) {
    return true;
  }
  if (HasAny<CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
             CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
             CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
             CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13>(raw)) {
    return true;
  }
  // Without TF32, engines that use tensor cores are unwanted for float32,
  // because tensor cores compute float32 in TF32.
  return spec.dtype == DataType::kFloat32 && !spec.tf32 &&
         fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_TENSOR_CORE>(raw);
}

class FrontendPlan : public CudnnPlan {
 public:
  FrontendPlan(const ConvolutionSpec& spec, fe::ExecutionPlan plan)
      : bias_(spec.bias),
        residual_(spec.residual.has_value()),
        plan_(std::move(plan)) {}

  int64_t workspace_bytes() const override { return plan_.getWorkspaceSize(); }

  Status Enqueue(const ConvolutionPointers& pointers, CUstream stream,
                 CudnnHandle* handle) const override {
    std::vector<int64_t> uids = {kX, kW, kY};
    std::vector<void*> data = {const_cast<void*>(pointers.input),
                               const_cast<void*>(pointers.filter),
                               pointers.output};
    if (bias_) {
      uids.push_back(kBias);
      data.push_back(const_cast<void*>(pointers.bias));
    }
    if (residual_) {
      uids.push_back(kResidual);
      data.push_back(const_cast<void*>(pointers.residual));
    }
    return Guard([&]() -> Status {
      const fe::VariantPack pack =
          fe::VariantPackBuilder()
              .setUids(uids.size(), uids.data())
              .setDataPointers(data.size(), data.data())
              .setWorkspacePointer(pointers.workspace)
              .build();
      return handle->With(stream, [&](cudnnHandle_t with) -> Status {
        // The mutex is needed because cuDNN's plans are not documented as
        // thread-safe.
        std::lock_guard<std::mutex> lock(mutex_);
        const cudnnStatus_t status = fe::detail::execute(
            with, plan_.get_raw_desc(), pack.get_raw_desc());
        if (status == CUDNN_STATUS_SUCCESS) return Status();
        return ToStatus(status, "cudnnBackendExecute failed");
      });
    });
  }

  StatusOr<std::string> Json() const override {
    return Guard([&]() -> StatusOr<std::string> {
      return plan_.getJsonRepresentation();
    });
  }

 private:
  const bool bias_;
  const bool residual_;
  const fe::ExecutionPlan plan_;
  mutable std::mutex mutex_;
};

// Returns whether engines that fuse any graph may be faster than the
// specialised engines for convolutions with bias and activation. The
// specialised engines first copy tensors that are not dense, and do not support
// clipping.
bool FuseFreely(const ConvolutionSpec& spec) {
  return spec.activation == Activation::kRelu6 ||
         !IsDense(spec.input, spec.dtype) || !IsDense(spec.output, spec.dtype);
}

class FrontendGraph : public CudnnGraph {
 public:
  FrontendGraph(std::shared_ptr<CudnnHandle> handle,
                const ConvolutionSpec& spec)
      : handle_(std::move(handle)), spec_(spec) {
    fe::OperationGraph graph =
        MakeGraph(spec, /*identity=*/false, handle_->get());
    // Takes proposals of both heuristics alternately, because neither of them
    // proposes all fast engines.
    const fe::EngineConfigList a = Propose(&graph, CUDNN_HEUR_MODE_A);
    const fe::EngineConfigList b = Propose(&graph, CUDNN_HEUR_MODE_B);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size()) Add(a[i], "");
      if (i < b.size()) Add(b[i], "");
    }
    if (FuseFreely(spec)) AddAll(ProposeFree(spec, handle_->get()), kFree);
    // The fallback engines are slow, but sometimes the only ones.
    AddAll(Propose(&graph, CUDNN_HEUR_MODE_FALLBACK), "");
  }

  // Asks one heuristic after the other until one proposes `candidate`. All
  // proposals until then become candidates.
  FrontendGraph(std::shared_ptr<CudnnHandle> handle,
                const ConvolutionSpec& spec, const std::string& candidate)
      : handle_(std::move(handle)), spec_(spec) {
    if (candidate.rfind(kFree, 0) == 0) {
      if (FuseFreely(spec)) AddAll(ProposeFree(spec, handle_->get()), kFree);
      return;
    }
    fe::OperationGraph graph =
        MakeGraph(spec, /*identity=*/false, handle_->get());
    for (auto mode :
         {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
      AddAll(Propose(&graph, mode), "");
      if (names_.count(candidate)) return;
    }
  }

  const std::vector<CudnnCandidate>& candidates() const override {
    return candidates_;
  }

  StatusOr<std::shared_ptr<const CudnnPlan>> Build(
      size_t candidate) const override {
    using Result = StatusOr<std::shared_ptr<const CudnnPlan>>;
    return Guard([&]() -> Result {
      fe::ExecutionPlan plan = fe::ExecutionPlanBuilder()
                                   .setHandle(handle_->get())
                                   .setEngineConfig(configs_[candidate])
                                   .build();
      return std::shared_ptr<const CudnnPlan>(
          std::make_shared<FrontendPlan>(spec_, std::move(plan)));
    });
  }

 private:
  // The prefix in the names of candidates that fuse any graph.
  static constexpr char kFree[] = "free ";

  void AddAll(const fe::EngineConfigList& configs, const char* prefix) {
    for (const fe::ManagedOpaqueDescriptor& config : configs) {
      Add(config, prefix);
    }
  }

  void Add(const fe::ManagedOpaqueDescriptor& config, const char* prefix) {
    if (Unwanted(spec_, config)) return;
    CudnnCandidate candidate;
    candidate.name = prefix + fe::detail::get_engine_tag(config);
    candidate.compiles =
        fe::hasBehaviorNote<CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION>(
            config->get_backend_descriptor());
    if (!names_.insert(candidate.name).second) return;
    candidates_.push_back(std::move(candidate));
    configs_.push_back(config);
  }

  const std::shared_ptr<CudnnHandle> handle_;
  const ConvolutionSpec spec_;
  std::set<std::string> names_;
  std::vector<CudnnCandidate> candidates_;
  fe::EngineConfigList configs_;  // one per candidate
};

}  // namespace

StatusOr<std::shared_ptr<const CudnnPlan>> LoadCudnnPlan(
    const Device* device, const ConvolutionSpec& spec,
    const std::string& json) {
  using Result = StatusOr<std::shared_ptr<const CudnnPlan>>;
  return Guard([&]() -> Result {
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<CudnnHandle> builder,
                         TakeCudnnHandle(device));
    fe::ExecutionPlan plan =
        fe::ExecutionPlanBuilder().setHandle(builder->get()).loadFromJson(json);
    return std::shared_ptr<const CudnnPlan>(
        std::make_shared<FrontendPlan>(spec, std::move(plan)));
  });
}

bool CudnnHas(const Activation& activation) {
  return activation == Activation::kNone ||
         ModeOf(activation) != fe::PointwiseMode_t::NOT_SET;
}

StatusOr<std::unique_ptr<CudnnGraph>> CudnnGraph::Create(
    const Device* device, const ConvolutionSpec& spec,
    const std::string& candidate) {
  using Result = StatusOr<std::unique_ptr<CudnnGraph>>;
  return Guard([&]() -> Result {
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<CudnnHandle> builder,
                         TakeCudnnHandle(device));
    auto graph =
        candidate.empty()
            ? std::make_unique<FrontendGraph>(builder, spec)
            : std::make_unique<FrontendGraph>(builder, spec, candidate);
    if (graph->candidates().empty()) {
      return Unimplemented(OneLine("cuDNN proposes no engine: " +
                                   fe::detail::get_last_error_string_()));
    }
    return std::unique_ptr<CudnnGraph>(std::move(graph));
  });
}

}  // namespace ios::cuda

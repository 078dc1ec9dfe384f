#include "cc/engine/cuda/cudnn/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
// TensorFlow's library has a copy of the frontend that calls cuDNN directly; in
// a namespace of its own, ours cannot be mixed up with it by the dynamic
// linker.
#define cudnn_frontend ios_cudnn_frontend
// This file includes what the frontend's builders are made of: the whole of it
// compiles for half a minute, and its graph::Graph fixes the tensors'
// alignment.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cudnn_frontend_ExecutionPlan.h>
#include <cudnn_frontend_Heuristics.h>
#include <cudnn_frontend_VariantPack.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace ios::cuda {
namespace {

namespace fe = ::cudnn_frontend;

enum Uid : int64_t { kX = 1, kW, kBias, kResidual, kY, kFirstVirtual };

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Status ToStatus(cudnnStatus_t status, const std::string& what) {
  StatusCode code = StatusCode::kInternal;
  if (status == CUDNN_STATUS_ALLOC_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    code = StatusCode::kResourceExhausted;
  } else if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ||
             CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM) {
    // Which parameters are bad depends on the version of cuDNN.
    code = StatusCode::kUnimplemented;
  }
  return Status(code, OneLine("cuDNN: " + what + " (" +
                              fe::detail::get_error_string(status) + ")"));
}

// Calls `function`, which returns a Status or StatusOr, and turns the
// frontend's exceptions into Statuses.
template <typename Function>
auto Guard(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (fe::cudnnException& error) {  // its getters are not const
    return ToStatus(error.getCudnnStatus(), error.what());
  } catch (const std::exception& error) {
    return Internal(OneLine(error.what()));
  }
}

}  // namespace

// A handle has one stream at a time, and internal streams that follow it.
class CudnnHandle {
 public:
  static StatusOr<std::unique_ptr<CudnnHandle>> Create() {
    std::unique_ptr<CudnnHandle> made(new CudnnHandle);
    const cudnnStatus_t status = fe::detail::create_handle(&made->handle_);
    if (status != CUDNN_STATUS_SUCCESS) {
      return ToStatus(status, "cudnnCreate failed");
    }
    return made;
  }

  // For building graphs, which no stream matters to.
  cudnnHandle_t get() const { return handle_; }

  // Calls function(handle) while the handle's stream is `stream`.
  Status With(CUstream stream,
              const std::function<Status(cudnnHandle_t)>& function) {
    std::lock_guard<std::mutex> lock(mutex_);
    const cudnnStatus_t status = fe::detail::set_stream(handle_, stream);
    if (status != CUDNN_STATUS_SUCCESS) {
      return ToStatus(status, "cudnnSetStream failed");
    }
    return function(handle_);
  }

 private:
  CudnnHandle() = default;

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
};

namespace {

// A device's cuDNN handles: one to build graphs with, and those that callers
// have or have had. They live as long as the process, as the device does.
class Handles {
 public:
  static StatusOr<Handles*> Get(const Device* device) {
    static std::mutex mutex;
    static auto* all = new std::map<int, std::unique_ptr<Handles>>;
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Handles>& handles = (*all)[device->ordinal()];
    if (handles) return handles.get();
    fe::cudnn_dlhandle = device->libraries().cudnn;
    std::unique_ptr<Handles> made(new Handles);
    IOS_ASSIGN_OR_RETURN(made->builder_, CudnnHandle::Create());
    handles = std::move(made);
    return handles.get();
  }

  CudnnHandle* builder() const { return builder_.get(); }

  // One that nobody else has until the last pointer goes.
  StatusOr<std::shared_ptr<CudnnHandle>> Take() {
    std::unique_ptr<CudnnHandle> handle;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        handle = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!handle) {
      IOS_ASSIGN_OR_RETURN(handle, CudnnHandle::Create());
    }
    return std::shared_ptr<CudnnHandle>(
        handle.release(), [this](CudnnHandle* back) {
          std::lock_guard<std::mutex> lock(mutex_);
          free_.emplace_back(back);
        });
  }

 private:
  Handles() = default;

  std::unique_ptr<CudnnHandle> builder_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudnnHandle>> free_;
};

fe::DataType_t ToCudnn(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return fe::DataType_t::FLOAT;
    case DataType::kFloat16:
      return fe::DataType_t::HALF;
    case DataType::kBFloat16:
      return fe::DataType_t::BFLOAT16;
  }
  return fe::DataType_t::NOT_SET;
}

fe::PointwiseMode_t ToCudnn(const Activation& activation) {
  switch (activation.kind) {
    case Activation::kRelu:
    case Activation::kRelu6:
    case Activation::kLeakyRelu:
      return fe::PointwiseMode_t::RELU_FWD;
    case Activation::kSigmoid:
      return fe::PointwiseMode_t::SIGMOID_FWD;
    case Activation::kTanh:
      return fe::PointwiseMode_t::TANH_FWD;
    case Activation::kSwish:
      return fe::PointwiseMode_t::SWISH_FWD;
    case Activation::kElu:
      return fe::PointwiseMode_t::ELU_FWD;
    case Activation::kSoftplus:
      return fe::PointwiseMode_t::SOFTPLUS_FWD;
    case Activation::kGelu:
      return fe::PointwiseMode_t::GELU_FWD;
    case Activation::kGeluTanh:
      return fe::PointwiseMode_t::GELU_APPROX_TANH_FWD;
    default:
      return fe::PointwiseMode_t::NOT_SET;
  }
}

// cuDNN's dimensions are in the order NCHW whatever the layout.
fe::Tensor MakeTensor(int64_t uid, DataType dtype, const TensorView& view,
                      bool is_virtual = false) {
  const int64_t n = view.shape[0], h = view.shape[1], w = view.shape[2];
  const int64_t pitch = view.pitch;
  const std::array<int64_t, 4> dims = {n, view.channels(), h, w};
  const std::array<int64_t, 4> strides = {h * w * pitch, 1, w * pitch, pitch};
  return fe::TensorBuilder()
      .setDataType(ToCudnn(dtype))
      .setDim(4, dims.data())
      .setStride(4, strides.data())
      .setId(uid)
      .setAlignment(AlignmentBytes(view, dtype))
      .setVirtual(is_virtual)
      .build();
}

fe::Operation MakeConvolution(const ConvolutionSpec& spec, const fe::Tensor& x,
                              const fe::Tensor& w, const fe::Tensor& y) {
  const auto [top, bottom, left, right] = spec.padding;
  const std::array<int64_t, 2> before = {top, left};
  const std::array<int64_t, 2> after = {bottom, right};
  const fe::ConvDesc description = fe::ConvDescBuilder()
                                       .setComputeType(fe::DataType_t::FLOAT)
                                       .setMathMode(CUDNN_CROSS_CORRELATION)
                                       .setSpatialDimCount(2)
                                       .setSpatialStride(2, spec.strides.data())
                                       .setPrePadding(2, before.data())
                                       .setPostPadding(2, after.data())
                                       .setDilation(2, spec.dilations.data())
                                       .build();
  if (spec.transposed) {
    return fe::OperationBuilder(
               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        .setdyDesc(x)
        .setwDesc(w)
        .setdxDesc(y)
        .setcDesc(description)
        .setAlpha(1.0f)
        .setBeta(0.0f)
        .build();
  }
  return fe::OperationBuilder(
             CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .setxDesc(x)
      .setwDesc(w)
      .setyDesc(y)
      .setcDesc(description)
      .setAlpha(1.0f)
      .setBeta(0.0f)
      .build();
}

fe::Operation MakeAdd(const fe::Tensor& x, const fe::Tensor& b,
                      const fe::Tensor& y) {
  const fe::PointWiseDesc description =
      fe::PointWiseDescBuilder()
          .setMode(fe::PointwiseMode_t::ADD)
          .setComputeType(fe::DataType_t::FLOAT)
          .build();
  return fe::OperationBuilder(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .setxDesc(x)
      .setbDesc(b)
      .setyDesc(y)
      .setpwDesc(description)
      .build();
}

fe::Operation MakePointwise(const fe::PointWiseDesc& description,
                            const fe::Tensor& x, const fe::Tensor& y) {
  return fe::OperationBuilder(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .setxDesc(x)
      .setyDesc(y)
      .setpwDesc(description)
      .build();
}

// The frontend's descriptions propagate NaN unless told otherwise.
fe::PointWiseDesc DescribeActivation(const Activation& activation) {
  fe::PointWiseDescBuilder builder;
  builder.setMode(ToCudnn(activation)).setComputeType(fe::DataType_t::FLOAT);
  switch (activation.kind) {
    case Activation::kRelu6:
      builder.setReluUpperClip(6.0);
      break;
    case Activation::kLeakyRelu:
      builder.setReluLowerClipSlope(activation.alpha);
      break;
    case Activation::kElu:
      builder.setEluAlpha(activation.alpha);
      break;
    case Activation::kSwish:
      builder.setSwishBeta(activation.alpha);
      break;
    default:
      break;
  }
  return builder.build();
}

fe::PointWiseDesc DescribeIdentity() {
  return fe::PointWiseDescBuilder()
      .setMode(fe::PointwiseMode_t::IDENTITY)
      .setComputeType(fe::DataType_t::FLOAT)
      .build();
}

// convolution, + residual, + bias, activation: the order that cuDNN's engines
// for convolutions with bias and activation know. With an `identity` at the
// end, the graph is none of theirs: then heuristics propose engines that fuse
// any graph.
fe::OperationGraph MakeGraph(const ConvolutionSpec& spec, bool identity,
                             cudnnHandle_t handle) {
  const int64_t filters = spec.output.channels();
  const fe::Tensor x = MakeTensor(kX, spec.dtype, spec.input);
  const fe::Tensor w = MakeTensor(kW, spec.dtype, FilterView(spec));

  int left = 1 + (spec.residual ? 1 : 0) + (spec.bias ? 1 : 0) +
             (spec.activation != Activation::kNone ? 1 : 0) +
             (identity ? 1 : 0);
  int64_t next_virtual = kFirstVirtual;
  // The results between the operations exist in registers only, in float32.
  const auto result = [&]() -> fe::Tensor {
    if (--left == 0) return MakeTensor(kY, spec.dtype, spec.output);
    return MakeTensor(next_virtual++, DataType::kFloat32,
                      DenseView(spec.output.shape), /*is_virtual=*/true);
  };
  std::vector<fe::Operation> operations;
  fe::Tensor last = result();
  operations.push_back(MakeConvolution(spec, x, w, last));
  if (spec.residual) {
    fe::Tensor sum = result();
    operations.push_back(
        MakeAdd(last, MakeTensor(kResidual, spec.dtype, *spec.residual), sum));
    last = std::move(sum);
  }
  if (spec.bias) {
    fe::Tensor sum = result();
    operations.push_back(MakeAdd(
        last, MakeTensor(kBias, spec.dtype, DenseView({1, 1, 1, filters})),
        sum));
    last = std::move(sum);
  }
  if (spec.activation != Activation::kNone) {
    fe::Tensor activated = result();
    operations.push_back(
        MakePointwise(DescribeActivation(spec.activation), last, activated));
    last = std::move(activated);
  }
  if (identity) {
    operations.push_back(MakePointwise(DescribeIdentity(), last, result()));
  }
  return fe::OperationGraphBuilder()
      .setHandle(handle)
      .setOperationGraph(operations)
      .build();
}

// The engines that heuristics of one mode propose; none where they fail.
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

// The engines that fuse any graph and are proposed for the spec; none if there
// are no such engines.
fe::EngineConfigList ProposeFree(const ConvolutionSpec& spec,
                                 cudnnHandle_t handle) {
  try {
    fe::OperationGraph graph = MakeGraph(spec, /*identity=*/true, handle);
    return Propose(&graph, CUDNN_HEUR_MODE_A);
  } catch (const fe::cudnnException&) {
    return {};
  }
}

// Whether an engine computes less precisely than was asked for, or not the same
// each time.
bool Unwanted(const ConvolutionSpec& spec,
              const fe::ManagedOpaqueDescriptor& config) {
  const cudnnBackendDescriptor_t raw = config->get_backend_descriptor();
  if (fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS>(raw) ||
      fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION>(
          raw) ||
      fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>(raw)) {
    return true;
  }
  // On float32, tensor cores compute in TF32.
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
        // cuDNN promises thread safety for handles, not for plans.
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

// Whether engines that fuse any graph may beat those for convolutions with bias
// and activation: these first copy tensors that are not dense, and do not clip.
bool FuseFreely(const ConvolutionSpec& spec) {
  return spec.activation == Activation::kRelu6 ||
         !IsDense(spec.input, spec.dtype) || !IsDense(spec.output, spec.dtype);
}

class FrontendGraph : public CudnnGraph {
 public:
  FrontendGraph(CudnnHandle* handle, const ConvolutionSpec& spec)
      : handle_(handle), spec_(spec) {
    fe::OperationGraph graph =
        MakeGraph(spec, /*identity=*/false, handle->get());
    // The two heuristics in turn: neither knows all that is fast.
    const fe::EngineConfigList a = Propose(&graph, CUDNN_HEUR_MODE_A);
    const fe::EngineConfigList b = Propose(&graph, CUDNN_HEUR_MODE_B);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size()) Add(a[i], "");
      if (i < b.size()) Add(b[i], "");
    }
    if (FuseFreely(spec)) AddAll(ProposeFree(spec, handle->get()), kFree);
    // Its engines are slow, but are what is left.
    AddAll(Propose(&graph, CUDNN_HEUR_MODE_FALLBACK), "");
  }

  // What the heuristics propose that are asked until one proposes `candidate`.
  FrontendGraph(CudnnHandle* handle, const ConvolutionSpec& spec,
                const std::string& candidate)
      : handle_(handle), spec_(spec) {
    if (candidate.rfind(kFree, 0) == 0) {
      if (FuseFreely(spec)) AddAll(ProposeFree(spec, handle->get()), kFree);
      return;
    }
    fe::OperationGraph graph =
        MakeGraph(spec, /*identity=*/false, handle->get());
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
  // Begins the names of candidates that fuse any graph.
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

  CudnnHandle* const handle_;
  const ConvolutionSpec spec_;
  std::set<std::string> names_;
  std::vector<CudnnCandidate> candidates_;
  fe::EngineConfigList configs_;  // of candidates_
};

}  // namespace

StatusOr<int64_t> CudnnVersion(const Device* device) {
  IOS_RETURN_IF_ERROR(Handles::Get(device).status());
  return static_cast<int64_t>(fe::detail::get_backend_version());
}

StatusOr<std::shared_ptr<CudnnHandle>> TakeCudnnHandle(const Device* device) {
  IOS_ASSIGN_OR_RETURN(Handles * handles, Handles::Get(device));
  return handles->Take();
}

StatusOr<std::shared_ptr<const CudnnPlan>> LoadCudnnPlan(
    const Device* device, const ConvolutionSpec& spec,
    const std::string& json) {
  using Result = StatusOr<std::shared_ptr<const CudnnPlan>>;
  return Guard([&]() -> Result {
    IOS_ASSIGN_OR_RETURN(Handles * handles, Handles::Get(device));
    fe::ExecutionPlan plan = fe::ExecutionPlanBuilder()
                                 .setHandle(handles->builder()->get())
                                 .loadFromJson(json);
    return std::shared_ptr<const CudnnPlan>(
        std::make_shared<FrontendPlan>(spec, std::move(plan)));
  });
}

bool CudnnHas(const Activation& activation) {
  return activation == Activation::kNone ||
         ToCudnn(activation) != fe::PointwiseMode_t::NOT_SET;
}

StatusOr<std::unique_ptr<CudnnGraph>> CudnnGraph::Create(
    const Device* device, const ConvolutionSpec& spec,
    const std::string& candidate) {
  using Result = StatusOr<std::unique_ptr<CudnnGraph>>;
  return Guard([&]() -> Result {
    IOS_ASSIGN_OR_RETURN(Handles * handles, Handles::Get(device));
    auto graph = candidate.empty()
                     ? std::make_unique<FrontendGraph>(handles->builder(), spec)
                     : std::make_unique<FrontendGraph>(handles->builder(), spec,
                                                       candidate);
    if (graph->candidates().empty()) {
      return Unimplemented(OneLine("cuDNN proposes no engine: " +
                                   fe::detail::get_last_error_string_()));
    }
    return std::unique_ptr<CudnnGraph>(std::move(graph));
  });
}

}  // namespace ios::cuda

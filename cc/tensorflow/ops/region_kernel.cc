// The TensorFlow kernels of the operation IosRegion, which run an engine
// Program.
#include "cc/tensorflow/ops/region_kernel.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/engine/program.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/names.h"
#include "cc/tensorflow/ops/engine_device.h"
#include "cc/tensorflow/ops/program_json.h"
#include "cc/tensorflow/ops/region_watch.h"
#include "cc/tensorflow/ops/region_weights.h"
#include "cc/tensorflow/ops/watched_region.h"
#include "cc/tensorflow/status_util.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tsl/profiler/lib/traceme_encode.h"
#include "xla/stream_executor/stream.h"
#if __has_include("xla/stream_executor/device_address.h")
#include "xla/stream_executor/device_address.h"
#else
#include "xla/stream_executor/device_memory.h"
#endif

namespace ios::tf {
namespace {

// TensorFlow 2.20, which TensorFlow Serving 2.20 contains, has the older name.
#if __has_include("xla/stream_executor/device_address.h")
using DeviceAddress = ::stream_executor::DeviceAddressBase;
#else
using DeviceAddress = ::stream_executor::DeviceMemoryBase;
#endif

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

std::atomic<int64_t> packings{0};

Shape ToShape(const TensorShape& shape) {
  Shape result;
  for (int d = 0; d < shape.dims(); ++d) result.push_back(shape.dim_size(d));
  return result;
}

// Returns a copy of `tensor` at an aligned address. The copying is enqueued on
// the stream.
absl::StatusOr<Tensor> AlignedCopy(OpKernelContext* context,
                                   const Tensor& tensor) {
  Tensor copy;
  TF_RETURN_IF_ERROR(
      context->allocate_temp(tensor.dtype(), tensor.shape(), &copy));
  DeviceAddress to(copy.data(), copy.TotalBytes());
  const DeviceAddress from(tensor.data(), tensor.TotalBytes());
  TF_RETURN_IF_ERROR(context->op_device_context()->stream()->MemcpyD2D(
      &to, from, tensor.TotalBytes()));
  return copy;
}

// Returns a copy of `tensor` (in device memory) in host memory.
absl::StatusOr<Tensor> HostCopy(OpKernelContext* context,
                                const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.shape());
  auto* const stream = context->op_device_context()->stream();
  const DeviceAddress from(tensor.data(), tensor.TotalBytes());
  TF_RETURN_IF_ERROR(stream->Memcpy(copy.data(), from, tensor.TotalBytes()));
  TF_RETURN_IF_ERROR(stream->BlockHostUntilDone());
  return copy;
}

// Returns whether all inputs and outputs of the block have this type.
bool HasBorders(const Block& block, tensorflow::DataType dtype) {
  for (size_t k = 0; k < block.inputs.size(); ++k) {
    if (ToTensorFlow(InputDtype(block, k)) != dtype) return false;
  }
  for (size_t k = 0; k < block.outputs.size(); ++k) {
    if (ToTensorFlow(OutputDtype(block, k)) != dtype) return false;
  }
  return true;
}

class IosRegionOp : public OpKernel {
 public:
  explicit IosRegionOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context,
                   CatchExceptionsAbsl([&] { return Create(context); }));
  }
  ~IosRegionOp() override {
    if (watched_) watched_->Detach();
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CatchExceptionsAbsl([&] { return Run(context); }));
  }

  // Adds two batch sizes to TensorFlow's profiles: the batch size of this call,
  // and the batch size for which its schedule was made.
  std::string TraceString(const OpKernelContext& context,
                          bool verbose) const override {
    std::vector<Shape> shapes;
    for (int k = 0; k < NumActivations(context); ++k) {
      shapes.push_back(ToShape(context.input(k).shape()));
    }
    const int64_t batch = BatchSize(shapes);
    return tsl::profiler::TraceMeEncode(
        OpKernel::TraceString(context, verbose),
        {{"batch_size", batch},
         {"scheduled_for",
          NearestLoad(region_.schedules, {batch})->first.batch}});
  }

 private:
  absl::Status Create(OpKernelConstruction* context) {
    std::string json, watch;
    std::vector<Tensor> tensors;
    tensorflow::DataType dtype;
    TF_RETURN_IF_ERROR(context->GetAttr("program", &json));
    TF_RETURN_IF_ERROR(context->GetAttr("weights", &tensors));
    TF_RETURN_IF_ERROR(context->GetAttr("T", &dtype));
    TF_RETURN_IF_ERROR(context->GetAttr("watch", &watch));
    TF_ASSIGN_OR_RETURN(device_, EngineDevice(context));
    allocator_ = EngineAllocator(context);
    StatusOr<RegionProgram> region = RegionProgramFromJson(json);
    TF_RETURN_IF_ERROR(ToAbsl(region.status()));
    region_ = *std::move(region);
    region_.block.name = name();  // for traces
    const Block& block = region_.block;
    if (block.inputs.size() + region_.parameters.size() !=
            static_cast<size_t>(context->num_inputs()) ||
        static_cast<int>(block.outputs.size()) != context->num_outputs()) {
      return absl::InvalidArgumentError(
          "the op's number of inputs or outputs is not that of its program");
    }
    if (!HasBorders(block, dtype)) {
      return absl::InvalidArgumentError(
          "an input or output of the program has another type than the op's "
          "attribute T");
    }
    StatusOr<RegionWeights> weights =
        RegionWeights::Create(region_, std::move(tensors));
    TF_RETURN_IF_ERROR(ToAbsl(weights.status()));
    weights_ = *std::move(weights);
    if (!region_.parameters.empty()) return absl::OkStatus();
    if (!watch.empty()) {
      TF_RETURN_IF_ERROR(Watch(watch));
    } else {
      TF_RETURN_IF_ERROR(MakeProgram({}));
    }
    weights_.reset();  // the program has packed them
    return absl::OkStatus();
  }

  // Makes the region take new schedules from the cache. `json` is the attribute
  // `watch`.
  absl::Status Watch(const std::string& json) {
    StatusOr<RegionWatch> watch = RegionWatchFromJson(json);
    TF_RETURN_IF_ERROR(ToAbsl(watch.status()));
    if (!watch->waits) TF_RETURN_IF_ERROR(MakeProgram({}));
    watched_ = std::make_shared<WatchedRegion>(
        *std::move(watch), region_.block, std::move(program_),
        [this](const Schedule& schedule) { return ProgramFor(schedule); });
    WatchedRegion::Register(watched_);
    return absl::OkStatus();
  }

  // Returns a program that runs another schedule for the same load. The weights
  // are read again from the node. The background thread of watched_region.h
  // calls this function.
  StatusOr<std::shared_ptr<Program>> ProgramFor(
      const Schedule& schedule) const {
    std::vector<Tensor> tensors;
    const absl::Status read =
        tensorflow::GetNodeAttr(def(), "weights", &tensors);
    if (!read.ok()) return Internal(std::string(read.message()));
    IOS_ASSIGN_OR_RETURN(const RegionWeights weights,
                         RegionWeights::Create(region_, std::move(tensors)));
    std::vector<std::vector<float>> made;
    IOS_ASSIGN_OR_RETURN(const Weights values, weights.Values({}, &made));
    const Load load = region_.schedules.begin()->first;
    IOS_ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                         Program::Create(region_.block, {{load, schedule}},
                                         values, device_, allocator_));
    ++packings;
    return std::shared_ptr<Program>(std::move(program));
  }

  int NumActivations(const OpKernelContext& context) const {
    return context.num_inputs() - region_.parameters.size();
  }

  // Creates the program. `parameters` must be in host memory.
  absl::Status MakeProgram(const std::vector<Tensor>& parameters) {
    std::vector<std::vector<float>> made;
    StatusOr<Weights> weights = weights_->Values(parameters, &made);
    TF_RETURN_IF_ERROR(ToAbsl(weights.status()));
    StatusOr<std::unique_ptr<Program>> created = Program::Create(
        region_.block, region_.schedules, *weights, device_, allocator_);
    TF_RETURN_IF_ERROR(ToAbsl(created.status()));
    ++packings;
    program_ = std::move(*created);
    return absl::OkStatus();
  }

  // Returns true if `read` certainly has the same values as `held`, an earlier
  // read of the same variable. This is so if the address is the same, because
  // the memory of a tensor that is held does not change. If TensorFlow copies
  // the variable at every read (for example after a scatter update), addresses
  // differ; on the CPU, the values are then compared.
  bool Unchanged(const Tensor& held, const Tensor& read) const {
    if (held.data() == read.data()) return true;
    return !on_gpu() && held.dtype() == read.dtype() &&
           held.shape() == read.shape() &&
           std::memcmp(held.data(), read.data(), held.TotalBytes()) == 0;
  }

  // Returns the program with the values that the variables have in this call.
  absl::StatusOr<std::shared_ptr<Program>> CurrentProgram(
      OpKernelContext* context) {
    if (watched_) return watched_->Current();
    if (region_.parameters.empty()) return program_;
    const int first = NumActivations(*context);
    std::lock_guard<std::mutex> lock(mutex_);
    bool same = !held_.empty();
    std::vector<Tensor> read, on_host;
    for (size_t k = 0; k < region_.parameters.size(); ++k) {
      read.push_back(context->input(first + k));
      same = same && Unchanged(held_[k], read[k]);
    }
    if (same) {
      held_ = std::move(read);
      return program_;
    }
    held_.clear();
    for (size_t k = 0; on_gpu() && k < read.size(); ++k) {
      TF_ASSIGN_OR_RETURN(Tensor copy, HostCopy(context, read[k]));
      on_host.push_back(std::move(copy));
    }
    TF_RETURN_IF_ERROR(MakeProgram(on_gpu() ? on_host : read));
    held_ = std::move(read);
    return program_;
  }

  absl::Status Run(OpKernelContext* context) {
    TF_ASSIGN_OR_RETURN(const std::shared_ptr<Program> program,
                        CurrentProgram(context));
    if (!program) {
      return absl::FailedPreconditionError(
          "the region still waits for a schedule");
    }
    std::vector<Shape> shapes;
    for (int k = 0; k < NumActivations(*context); ++k) {
      shapes.push_back(ToShape(context->input(k).shape()));
    }
    StatusOr<std::vector<Shape>> results = program->OutputShapes(shapes);
    TF_RETURN_IF_ERROR(ToAbsl(results.status()));
    std::vector<void*> outputs;
    bool empty = true;
    for (size_t k = 0; k < results->size(); ++k) {
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(
          context->allocate_output(k, TensorShape((*results)[k]), &output));
      outputs.push_back(output->data());
      empty = empty && output->NumElements() == 0;
    }
    if (empty) return absl::OkStatus();  // a batch of no images
    std::vector<TensorArray> inputs;
    std::vector<Tensor> copies;  // alive until the work is enqueued
    for (size_t k = 0; k < shapes.size(); ++k) {
      const Tensor& input = context->input(k);
      const void* data = input.data();
      // Copies the input if it is not aligned, for example because it is a part
      // of another tensor.
      if (on_gpu() &&
          reinterpret_cast<uintptr_t>(data) % kDeviceAlignment != 0) {
        absl::StatusOr<Tensor> copy = AlignedCopy(context, input);
        TF_RETURN_IF_ERROR(copy.status());
        data = copy->data();
        copies.push_back(*std::move(copy));
      }
      inputs.push_back({data, std::move(shapes[k])});
    }
    void* stream = nullptr;
    if (on_gpu()) {
      stream = context->op_device_context()
                   ->stream()
                   ->platform_specific_handle()
                   .stream;
    }
    return ToAbsl(program->Run(inputs, outputs, stream));
  }

  bool on_gpu() const { return device_ != "cpu"; }

  std::string device_;  // the engine's name for the kernel's device
  DeviceAllocator* allocator_ = nullptr;
  RegionProgram region_;
  std::optional<RegionWeights> weights_;
  std::mutex mutex_;
  // The mutex guards the members below. It is used only if the region has
  // parameters.
  std::shared_ptr<Program> program_;
  std::vector<Tensor> held_;                // the variables' values in program_
  std::shared_ptr<WatchedRegion> watched_;  // has the program, unless null
};

// Tells TensorFlow whether to run a region, or the nodes that it replaces.
class IosRegionReadyOp : public OpKernel {
 public:
  explicit IosRegionReadyOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("key", &key_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, CatchExceptionsAbsl([&] { return Run(context); }));
  }

  bool IsExpensive() override { return false; }

 private:
  absl::Status Run(OpKernelContext* context) const {
    std::vector<Shape> shapes;
    bool empty = false;  // a batch of no images
    for (int k = 0; k < context->num_inputs(); ++k) {
      shapes.push_back(ToShape(context->input(k).shape()));
      empty = empty || context->input(k).NumElements() == 0;
    }
    if (empty) shapes.clear();
    Tensor* ready = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &ready));
    ready->scalar<bool>()() = WatchedRegion::IsReady(key_, shapes);
    return absl::OkStatus();
  }

  std::string key_;
};

REGISTER_KERNEL_BUILDER(Name(kRegion).Device(tensorflow::DEVICE_CPU),
                        IosRegionOp);
REGISTER_KERNEL_BUILDER(Name(kRegion).Device(tensorflow::DEVICE_GPU),
                        IosRegionOp);
REGISTER_KERNEL_BUILDER(Name(kRegionReady).Device(tensorflow::DEVICE_CPU),
                        IosRegionReadyOp);
REGISTER_KERNEL_BUILDER(
    Name(kRegionReady).Device(tensorflow::DEVICE_GPU).HostMemory("ready"),
    IosRegionReadyOp);

}  // namespace

int64_t RegionPackings() { return packings; }

}  // namespace ios::tf

// Kernels of IosRegion, over the engine's Program.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/engine/program.h"
#include "cc/tensorflow/dtypes.h"
#include "cc/tensorflow/engine_device.h"
#include "cc/tensorflow/program_json.h"
#include "cc/tensorflow/status_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tsl/profiler/lib/traceme_encode.h"
#include "xla/stream_executor/stream.h"

namespace ios::tf {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// What Program::Run asks of device memory. TensorFlow's allocations have it,
// parts of tensors need not.
constexpr uintptr_t kAlignment = 16;

Shape ToShape(const TensorShape& shape) {
  Shape result;
  for (int d = 0; d < shape.dims(); ++d) result.push_back(shape.dim_size(d));
  return result;
}

// The attribute's tensors, as the operators' weights. They point into
// `tensors`.
StatusOr<Weights> SplitWeights(const Block& block,
                               const std::vector<Tensor>& tensors) {
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
  Weights weights;
  size_t next = 0;
  for (const Operator& op : block.operators) {
    weights.emplace_back();
    for (Shape& shape :
         WeightShapes(op, ShapeOf(block, shapes, op.inputs[0]))) {
      if (next >= tensors.size() ||
          tensors[next].dtype() != tensorflow::DT_FLOAT ||
          tensors[next].NumElements() != NumElements(shape)) {
        return InvalidArgument(absl::StrCat(
            "weight ", next, " does not fit operator '", op.name, "'"));
      }
      weights.back().push_back(
          {tensors[next++].flat<float>().data(), std::move(shape)});
    }
  }
  if (next != tensors.size()) {
    return InvalidArgument(absl::StrCat("has ", tensors.size(),
                                        " weights, the program takes ", next));
  }
  return weights;
}

// A copy of `tensor`, made on the stream, that is aligned.
absl::StatusOr<Tensor> AlignedCopy(OpKernelContext* context,
                                   const Tensor& tensor) {
  Tensor copy;
  TF_RETURN_IF_ERROR(
      context->allocate_temp(tensor.dtype(), tensor.shape(), &copy));
  stream_executor::DeviceAddressBase to(copy.data(), copy.TotalBytes());
  const stream_executor::DeviceAddressBase from(tensor.data(),
                                                tensor.TotalBytes());
  TF_RETURN_IF_ERROR(context->op_device_context()->stream()->MemcpyD2D(
      &to, from, tensor.TotalBytes()));
  return copy;
}

class IosRegionOp : public OpKernel {
 public:
  explicit IosRegionOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, GuardedAbsl([&] { return Create(context); }));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, GuardedAbsl([&] { return Run(context); }));
  }

  // Says in TensorFlow's profiles by which schedule the region runs.
  std::string TraceString(const OpKernelContext& context,
                          bool verbose) const override {
    std::vector<Shape> shapes;
    for (int k = 0; k < context.num_inputs(); ++k) {
      shapes.push_back(ToShape(context.input(k).shape()));
    }
    const int64_t batch = BatchSize(shapes);
    return tsl::profiler::TraceMeEncode(
        OpKernel::TraceString(context, verbose),
        {{"batch_size", batch},
         {"scheduled_for", program_->ScheduledBatch(batch)}});
  }

 private:
  absl::Status Create(OpKernelConstruction* context) {
    std::string json;
    std::vector<Tensor> tensors;
    tensorflow::DataType dtype;
    TF_RETURN_IF_ERROR(context->GetAttr("program", &json));
    TF_RETURN_IF_ERROR(context->GetAttr("weights", &tensors));
    TF_RETURN_IF_ERROR(context->GetAttr("T", &dtype));
    const absl::StatusOr<std::string> device = EngineDevice(context);
    TF_RETURN_IF_ERROR(device.status());
    StatusOr<RegionProgram> program = RegionProgramFromJson(json);
    TF_RETURN_IF_ERROR(ToAbsl(program.status()));
    const Block& block = program->block;
    if (static_cast<int>(block.inputs.size()) != context->num_inputs() ||
        static_cast<int>(block.outputs.size()) != context->num_outputs()) {
      return absl::InvalidArgumentError(
          "the program has another number of inputs or outputs");
    }
    if (ToTensorFlow(block.dtype) != dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("the program computes ", ToString(block.dtype),
                       ", T is another type"));
    }
    StatusOr<Weights> weights = SplitWeights(block, tensors);
    TF_RETURN_IF_ERROR(ToAbsl(weights.status()));
    StatusOr<std::unique_ptr<Program>> created =
        Program::Create(block, program->schedules, *weights, *device);
    TF_RETURN_IF_ERROR(ToAbsl(created.status()));
    program_ = std::move(*created);
    on_gpu_ = *device != "cpu";
    return absl::OkStatus();
  }

  absl::Status Run(OpKernelContext* context) {
    std::vector<Shape> shapes;
    for (int k = 0; k < context->num_inputs(); ++k) {
      shapes.push_back(ToShape(context->input(k).shape()));
    }
    StatusOr<std::vector<Shape>> results = program_->OutputShapes(shapes);
    TF_RETURN_IF_ERROR(ToAbsl(results.status()));
    std::vector<void*> outputs;
    bool empty = true;
    for (size_t k = 0; k < results->size(); ++k) {
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(
          k, TensorShape((*results)[k]), &output));
      outputs.push_back(output->data());
      empty = empty && output->NumElements() == 0;
    }
    if (empty) return absl::OkStatus();  // a batch of no images
    std::vector<TensorArray> inputs;
    std::vector<Tensor> copies;  // alive until the work is enqueued
    for (int k = 0; k < context->num_inputs(); ++k) {
      const Tensor& input = context->input(k);
      const void* data = input.data();
      if (on_gpu_ && reinterpret_cast<uintptr_t>(data) % kAlignment != 0) {
        absl::StatusOr<Tensor> copy = AlignedCopy(context, input);
        TF_RETURN_IF_ERROR(copy.status());
        data = copy->data();
        copies.push_back(*std::move(copy));
      }
      inputs.push_back({data, std::move(shapes[k])});
    }
    void* stream = nullptr;
    if (on_gpu_) {
      stream = context->op_device_context()
                   ->stream()
                   ->platform_specific_handle()
                   .stream;
    }
    return ToAbsl(program_->Run(inputs, outputs, stream));
  }

  std::unique_ptr<Program> program_;
  bool on_gpu_ = false;
};

REGISTER_KERNEL_BUILDER(Name("IosRegion").Device(tensorflow::DEVICE_CPU),
                        IosRegionOp);
REGISTER_KERNEL_BUILDER(Name("IosRegion").Device(tensorflow::DEVICE_GPU),
                        IosRegionOp);

}  // namespace
}  // namespace ios::tf

#include "cc/engine/cuda/convolution_tasks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "cc/engine/cuda/cudnn/convolution.h"
#include "cc/engine/cuda/kernels/kernels.h"

namespace ios::cuda {
namespace {

using Layout = CudaParameter::Layout;

// A convolution with its weights. Matrix products are computed as convolutions,
// too.
struct Weighted {
  std::shared_ptr<const Convolution> convolution;
  std::shared_ptr<const void> filter, bias;

  // The filter is the operator's weight `index`, and the bias is the next
  // weight.
  Status Create(Device* device, const TaskSpec& spec, size_t index,
                const ConvolutionSpec& what) {
    IOS_ASSIGN_OR_RETURN(
        filter,
        Pack(spec, index, what.transposed ? Layout::kCrsk : Layout::kKrsc));
    IOS_ASSIGN_OR_RETURN(bias, Pack(spec, index + 1, Layout::kPlain));
    IOS_ASSIGN_OR_RETURN(convolution,
                         Convolution::Create(device, what, spec.may_measure));
    static_cast<CudaParameter*>(spec.parameters[index].get())
        ->Keep(convolution->plan());
    return Status();
  }
  Status Enqueue(const void* input, const void* residual, void* output,
                 const LaneResources& lane) const {
    return convolution->Enqueue(
        {input, filter.get(), bias.get(), residual, output}, lane);
  }
};

// Returns a spec with the output, bias, residual and activation of the
// operator's last convolution.
ConvolutionSpec EndOf(const TaskSpec& spec, bool tf32) {
  ConvolutionSpec what;
  what.dtype = spec.dtype;
  what.tf32 = tf32;
  what.output = spec.output;
  what.bias = spec.op->bias;
  if (spec.op->residual) what.residual = spec.inputs.back();
  what.activation = spec.op->activation;
  return what;
}

// Compiles a convolution that cuDNN computes, including transposed ones.
TaskOr CompileDense(Device* device, bool tf32, const TaskSpec& spec) {
  const Operator& op = *spec.op;
  ConvolutionSpec what = EndOf(spec, tf32);
  what.input = spec.inputs[0];
  what.kernel = op.kernel;
  what.strides = op.strides;
  what.dilations = op.dilations;
  what.groups = op.groups;
  what.transposed = op.type == OperatorType::kConv2DTranspose;
  if (what.transposed) {
    what.padding = TransposedPadding(op, what.input.shape, what.output.shape);
    // A negative value is the number of rows or columns of the output that no
    // window reaches. It is replaced by 0, because the strides skip these rows
    // or columns anyway.
    for (int64_t& cells : what.padding) cells = std::max<int64_t>(cells, 0);
  } else {
    what.padding = ExplicitPadding(op, what.input.shape);
  }
  Weighted weighted;
  IOS_RETURN_IF_ERROR(weighted.Create(device, spec, 0, what));
  return MakeTask(
      [weighted, residual = op.residual](
          const void* const* inputs, void* output, const LaneResources& lane) {
        return weighted.Enqueue(inputs[0], residual ? inputs[1] : nullptr,
                                output, lane);
      },
      weighted.convolution->scratch_bytes());
}

// Compiles a convolution of images without cells. Its windows contain only
// zeros, so the result is activation(residual + bias).
TaskOr CompileOfNothing(Device* device, const TaskSpec& spec) {
  const Operator& op = *spec.op;
  const Shape& shape = spec.output.shape;
  const PadSpec zeros = {spec.dtype, DenseView({shape[0], 0, 0, shape[3]}),
                         spec.output, shape[1], shape[2]};
  IOS_ASSIGN_OR_RETURN(const PadKernel pad, PadKernel::Create(device, zeros));
  // The sum needs at least one term. With a residual, the residual is the term.
  // Without a residual, the output itself is the term, after it was set to
  // zero.
  const TensorView term = op.residual ? spec.inputs.back() : spec.output;
  IOS_ASSIGN_OR_RETURN(
      const SumKernel sum,
      SumKernel::Create(
          device, {spec.dtype, {term}, op.bias, op.activation, spec.output}));
  std::shared_ptr<const void> bias;
  if (op.bias) {
    IOS_ASSIGN_OR_RETURN(
        bias, Pack(spec, spec.parameters.size() - 1, Layout::kPlain));
  }
  return MakeTask(
      [pad, sum, bias, residual = op.residual ? spec.inputs.size() - 1 : 0](
          const void* const* inputs, void* output, const LaneResources& lane) {
        if (residual > 0) {
          return sum.Enqueue(&inputs[residual], bias.get(), output,
                             lane.stream);
        }
        IOS_RETURN_IF_ERROR(pad.Enqueue(nullptr, output, lane.stream));
        const void* const term = output;
        return sum.Enqueue(&term, bias.get(), output, lane.stream);
      });
}

// Returns a view of [N,C] as images of one pixel.
TensorView AsImages(const TensorView& view) {
  if (view.shape.size() == 4) return view;
  return {{view.shape[0], 1, 1, view.shape[1]}, view.pitch, view.alignment};
}

bool IsDepthwise(const TaskSpec& spec) {
  return spec.op->groups > 1 && spec.op->groups == spec.inputs[0].channels();
}

TaskOr CompileDepthwise(Device* device, const TaskSpec& spec) {
  const Operator& op = *spec.op;
  WindowSpec window = WindowOf(spec);
  window.multiplier = op.filters / op.groups;
  window.bias = op.bias;
  if (op.residual) window.residual = spec.inputs.back();
  window.activation = op.activation;
  IOS_ASSIGN_OR_RETURN(const WindowKernel kernel,
                       WindowKernel::Create(device, window));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> filter,
                       Pack(spec, 0, Layout::kPlain));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> bias,
                       Pack(spec, 1, Layout::kPlain));
  return MakeTask(
      [kernel, filter, bias, residual = op.residual](
          const void* const* inputs, void* output, const LaneResources& lane) {
        return kernel.Enqueue({inputs[0], filter.get(), bias.get(),
                               residual ? inputs[1] : nullptr, output},
                              lane.stream);
      });
}

TaskOr CompileSepConv(Device* device, bool tf32, const TaskSpec& spec) {
  const Operator& op = *spec.op;
  Shape shape = spec.output.shape;
  shape[3] = spec.inputs[0].channels() * op.multiplier;
  const TensorView middle = DenseView(shape);
  WindowSpec window = WindowOf(spec);
  window.output = middle;
  window.multiplier = op.multiplier;
  window.pre_relu = op.pre_activation == Activation::kRelu;
  IOS_ASSIGN_OR_RETURN(const WindowKernel depthwise,
                       WindowKernel::Create(device, window));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> filter,
                       Pack(spec, 0, Layout::kPlain));
  ConvolutionSpec what = EndOf(spec, tf32);
  what.input = middle;
  Weighted pointwise;
  IOS_RETURN_IF_ERROR(pointwise.Create(device, spec, 1, what));
  // The scratch memory has the depthwise convolution's output, and then the
  // scratch memory of the 1x1 convolution.
  constexpr int64_t kLine = 256;
  const int64_t offset =
      (NumElements(shape) * SizeOf(spec.dtype) + kLine - 1) / kLine * kLine;
  return MakeTask(
      [depthwise, filter, pointwise, offset, residual = op.residual](
          const void* const* inputs, void* output, const LaneResources& lane) {
        IOS_RETURN_IF_ERROR(depthwise.Enqueue(
            {inputs[0], filter.get(), nullptr, nullptr, lane.scratch},
            lane.stream));
        LaneResources rest = lane;
        rest.scratch = static_cast<char*>(lane.scratch) + offset;
        return pointwise.Enqueue(lane.scratch, residual ? inputs[1] : nullptr,
                                 output, rest);
      },
      offset + pointwise.convolution->scratch_bytes());
}

}  // namespace

WindowSpec WindowOf(const TaskSpec& spec) {
  const Operator& op = *spec.op;
  WindowSpec window;
  window.dtype = spec.dtype;
  window.input = spec.inputs[0];
  window.output = spec.output;
  window.kernel = op.kernel;
  window.strides = op.strides;
  window.dilations = op.dilations;
  const std::array<int64_t, 4> padding =
      ExplicitPadding(op, spec.inputs[0].shape);
  window.top = padding[0];
  window.left = padding[2];
  return window;
}

TaskOr CompileConvolution(Device* device, bool tf32, const TaskSpec& spec) {
  if (spec.reads_nothing()) return CompileOfNothing(device, spec);
  switch (spec.op->type) {
    case OperatorType::kSepConv:
      return CompileSepConv(device, tf32, spec);
    case OperatorType::kConv2D:
      if (IsDepthwise(spec)) return CompileDepthwise(device, spec);
      [[fallthrough]];
    default:
      return CompileDense(device, tf32, spec);
  }
}

TaskOr CompileMatMul(Device* device, bool tf32, const TaskSpec& spec) {
  ConvolutionSpec what = EndOf(spec, tf32);
  what.input = AsImages(spec.inputs[0]);
  what.output = AsImages(spec.output);
  what.kernel = spec.op->kernel;
  Weighted weighted;
  IOS_RETURN_IF_ERROR(weighted.Create(device, spec, 0, what));
  return MakeTask(
      [weighted](const void* const* inputs, void* output,
                 const LaneResources& lane) {
        return weighted.Enqueue(inputs[0], nullptr, output, lane);
      },
      weighted.convolution->scratch_bytes());
}

}  // namespace ios::cuda

#include "cc/engine/cuda/tasks.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cc/engine/cuda/cudnn/convolution.h"
#include "cc/engine/cuda/kernels/kernels.h"
#include "cc/engine/cuda/kernels/normalization_kernels.h"
#include "cc/engine/cuda/kernels/reduction_kernels.h"
#include "cc/engine/cuda/kernels/spatial_kernels.h"
#include "cc/engine/cuda/kernels/window_kernel.h"
#include "cc/engine/cuda/parameter.h"
#include "cc/engine/cuda/task.h"

namespace ios::cuda {
namespace {

using Layout = CudaParameter::Layout;

class FunctionTask : public CudaTask {
 public:
  using Function = std::function<Status(const void* const* inputs, void* output,
                                        const LaneResources& lane)>;

  explicit FunctionTask(Function function, int64_t scratch_bytes = 0)
      : function_(std::move(function)), scratch_bytes_(scratch_bytes) {}

  Status Enqueue(const void* const* inputs, void* output,
                 const LaneResources& lane) const override {
    return function_(inputs, output, lane);
  }
  int64_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  const Function function_;
  const int64_t scratch_bytes_;
};

using TaskOr = StatusOr<std::unique_ptr<Task>>;

TaskOr MakeTask(FunctionTask::Function function, int64_t scratch_bytes = 0) {
  return std::unique_ptr<Task>(
      new FunctionTask(std::move(function), scratch_bytes));
}

// Weight `index` of the operator, packed; null if it has no such weight.
StatusOr<std::shared_ptr<const void>> Pack(const TaskSpec& spec, size_t index,
                                           Layout layout) {
  if (index >= spec.parameters.size()) return std::shared_ptr<const void>();
  return static_cast<CudaParameter*>(spec.parameters[index].get())
      ->Packed(layout, spec.dtype);
}

// A range of channels of `view` from `channel` on.
TensorView ChannelsOf(const TensorView& view, int64_t channel,
                      const Shape& shape) {
  TensorView part{shape, view.pitch, view.alignment};
  while (channel % part.alignment != 0) part.alignment /= 2;
  return part;
}

const void* Advance(const void* tensor, int64_t elements, DataType dtype) {
  return static_cast<const char*>(tensor) + elements * SizeOf(dtype);
}
void* Advance(void* tensor, int64_t elements, DataType dtype) {
  return static_cast<char*>(tensor) + elements * SizeOf(dtype);
}

// A convolution with its weights; what matrix products are, too.
struct Weighted {
  std::shared_ptr<const Convolution> convolution;
  std::shared_ptr<const void> filter, bias;

  // The operator's filter is its weight `index`, the bias the next one.
  Status Create(Device* device, const TaskSpec& spec, size_t index,
                const ConvolutionSpec& what) {
    IOS_ASSIGN_OR_RETURN(
        filter,
        Pack(spec, index, what.transposed ? Layout::kCrsk : Layout::kKrsc));
    IOS_ASSIGN_OR_RETURN(bias, Pack(spec, index + 1, Layout::kPlain));
    IOS_ASSIGN_OR_RETURN(convolution, Convolution::Create(device, what));
    return Status();
  }
  Status Enqueue(const void* input, const void* residual, void* output,
                 const LaneResources& lane) const {
    return convolution->Enqueue(
        {input, filter.get(), bias.get(), residual, output}, lane);
  }
};

// The output and the epilogue of a convolution that ends the operator.
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

TaskOr CompileConvolution(Device* device, bool tf32, const TaskSpec& spec) {
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
    // Strides leave these cells out anyway.
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

// A convolution of images without cells: of the zeros around them its bias,
// residual and activation are left.
TaskOr CompileConvolutionOfNothing(Device* device, const TaskSpec& spec) {
  const Operator& op = *spec.op;
  const Shape& shape = spec.output.shape;
  const PadSpec zeros = {spec.dtype, DenseView({shape[0], 0, 0, shape[3]}),
                         spec.output, shape[1], shape[2]};
  IOS_ASSIGN_OR_RETURN(const PadKernel pad, PadKernel::Create(device, zeros));
  // A residual may lie where the output does.
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

// [N,C] as images of one pixel.
TensorView AsImages(const TensorView& view) {
  if (view.shape.size() == 4) return view;
  return {{view.shape[0], 1, 1, view.shape[1]}, view.pitch, view.alignment};
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
  // The convolution's own scratch comes after the tensor in the middle.
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

TaskOr CompilePool(Device* device, const TaskSpec& spec) {
  WindowSpec window = WindowOf(spec);
  window.kind = spec.op->pool == PoolKind::kMax ? WindowSpec::kMaximum
                                                : WindowSpec::kAverage;
  IOS_ASSIGN_OR_RETURN(const WindowKernel kernel,
                       WindowKernel::Create(device, window));
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue({inputs[0], nullptr, nullptr, nullptr, output},
                          lane.stream);
  });
}

TaskOr CompileConcat(Device* device, const TaskSpec& spec) {
  struct Source {
    size_t input;
    int64_t channel;  // of the output
  };
  std::vector<Source> sources;
  std::vector<CopyKernel::Piece> pieces;
  int64_t channel = 0;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const TensorView& input = spec.inputs[i];
    if (!spec.in_place[i]) {
      sources.push_back({i, channel});
      pieces.push_back({input, ChannelsOf(spec.output, channel, input.shape)});
    }
    channel += input.channels();
  }
  IOS_ASSIGN_OR_RETURN(const CopyKernel kernel,
                       CopyKernel::Create(device, spec.dtype, pieces));
  return MakeTask(
      [kernel, sources, dtype = spec.dtype](
          const void* const* inputs, void* output, const LaneResources& lane) {
        std::vector<const void*> from;
        std::vector<void*> to;
        for (const Source& source : sources) {
          from.push_back(inputs[source.input]);
          to.push_back(Advance(output, source.channel, dtype));
        }
        return kernel.Enqueue(from.data(), to.data(), lane.stream);
      });
}

TaskOr CompileSlice(Device* device, const TaskSpec& spec) {
  const int64_t offset = spec.op->offset;
  const TensorView from = ChannelsOf(spec.inputs[0], offset, spec.output.shape);
  IOS_ASSIGN_OR_RETURN(
      const CopyKernel kernel,
      CopyKernel::Create(device, spec.dtype, {{from, spec.output}}));
  return MakeTask(
      [kernel, offset, dtype = spec.dtype](
          const void* const* inputs, void* output, const LaneResources& lane) {
        const void* const source = Advance(inputs[0], offset, dtype);
        return kernel.Enqueue(&source, &output, lane.stream);
      });
}

// Sums, and activations as sums of one.
TaskOr CompileAdd(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(
      const SumKernel kernel,
      SumKernel::Create(device, {spec.dtype, spec.inputs, /*bias=*/false,
                                 spec.op->activation, spec.output}));
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue(inputs, nullptr, output, lane.stream);
  });
}

TaskOr CompileBinary(Device* device, const TaskSpec& spec) {
  const Operator& op = *spec.op;
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> constant,
                       Pack(spec, 0, Layout::kPlain));
  TensorView first = spec.inputs[0];
  TensorView second = constant ? DenseView(op.operand) : spec.inputs[1];
  if (op.swapped) std::swap(first, second);
  IOS_ASSIGN_OR_RETURN(
      const BinaryKernel kernel,
      BinaryKernel::Create(device, {spec.dtype, op.function, first, second,
                                    op.activation, spec.output}));
  return MakeTask(
      [kernel, constant, swapped = op.swapped](
          const void* const* inputs, void* output, const LaneResources& lane) {
        const void* x = inputs[0];
        const void* y = constant ? constant.get() : inputs[1];
        if (swapped) std::swap(x, y);
        return kernel.Enqueue(x, y, output, lane.stream);
      });
}

TaskOr CompileScale(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(const ScaleKernel kernel,
                       ScaleKernel::Create(device, spec.dtype, spec.inputs[0],
                                           spec.op->activation, spec.output));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> scale,
                       Pack(spec, 0, Layout::kPlain));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> shift,
                       Pack(spec, 1, Layout::kPlain));
  return MakeTask([kernel, scale, shift](const void* const* inputs,
                                         void* output,
                                         const LaneResources& lane) {
    return kernel.Enqueue(inputs[0], scale.get(), shift.get(), output,
                          lane.stream);
  });
}

TaskOr CompileGlobalPool(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(
      const GlobalPoolKernel kernel,
      GlobalPoolKernel::Create(device, spec.dtype, spec.inputs[0],
                               spec.op->pool, spec.output));
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue(inputs[0], output, lane.stream);
  });
}

TaskOr CompileNormalization(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(
      const NormalizationKernel kernel,
      NormalizationKernel::Create(device, spec.dtype, *spec.op, spec.inputs[0],
                                  spec.output));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> scale,
                       Pack(spec, 0, Layout::kPlain));
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<const void> shift,
                       Pack(spec, 1, Layout::kPlain));
  return MakeTask([kernel, scale, shift](const void* const* inputs,
                                         void* output,
                                         const LaneResources& lane) {
    return kernel.Enqueue(inputs[0], scale.get(), shift.get(), output,
                          lane.stream);
  });
}

TaskOr CompileSoftmax(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(
      const SoftmaxKernel kernel,
      SoftmaxKernel::Create(device, spec.dtype, spec.inputs[0], spec.output));
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue(inputs[0], output, lane.stream);
  });
}

// A kernel of spatial_kernels.h, which reads its first input only.
template <typename Kernel>
TaskOr CompileSpatial(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(const Kernel kernel,
                       Kernel::Create(device, spec.dtype, *spec.op,
                                      spec.inputs[0], spec.output));
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue(inputs[0], output, lane.stream);
  });
}

TaskOr CompilePad(Device* device, const TaskSpec& spec) {
  const Padding& padding = spec.op->padding;
  IOS_ASSIGN_OR_RETURN(
      const PadKernel kernel,
      PadKernel::Create(device,
                        {spec.dtype, spec.inputs[0], spec.output, padding.top,
                         padding.left, spec.op->pad_mode, spec.op->pad_value,
                         spec.op->channel_padding[0]}));
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue(inputs[0], output, lane.stream);
  });
}

TaskOr Compile(Device* device, bool tf32, const TaskSpec& spec) {
  switch (spec.op->type) {
    case OperatorType::kConv2D:
      return IsDepthwise(spec) ? CompileDepthwise(device, spec)
                               : CompileConvolution(device, tf32, spec);
    case OperatorType::kConv2DTranspose:
      return CompileConvolution(device, tf32, spec);
    case OperatorType::kSepConv:
      return CompileSepConv(device, tf32, spec);
    case OperatorType::kPool:
      return CompilePool(device, spec);
    case OperatorType::kGlobalPool:
      return CompileGlobalPool(device, spec);
    case OperatorType::kReduce:
    case OperatorType::kNormalize:
    case OperatorType::kChannelShuffle:
      return CompileNormalization(device, spec);
    case OperatorType::kConcat:
      return CompileConcat(device, spec);
    case OperatorType::kAdd:
    case OperatorType::kActivation:
      return CompileAdd(device, spec);
    case OperatorType::kBinary:
      return CompileBinary(device, spec);
    case OperatorType::kMatMul:
      return CompileMatMul(device, tf32, spec);
    case OperatorType::kSoftmax:
      return CompileSoftmax(device, spec);
    case OperatorType::kPad:
      return CompilePad(device, spec);
    case OperatorType::kScale:
      return CompileScale(device, spec);
    case OperatorType::kSlice:
      return CompileSlice(device, spec);
    case OperatorType::kResize:
      return CompileSpatial<ResizeKernel>(device, spec);
    case OperatorType::kDepthToSpace:
    case OperatorType::kSpaceToDepth:
      return CompileSpatial<MoveDepthKernel>(device, spec);
    case OperatorType::kLrn:
      return CompileSpatial<LrnKernel>(device, spec);
  }
  return Unimplemented("no kernel for this operator type");
}

}  // namespace

StatusOr<std::unique_ptr<Task>> CompileTask(Device* device, bool tf32,
                                            const TaskSpec& spec) {
  StatusOr<std::unique_ptr<Task>> task =
      spec.reads_nothing() && IsConvolution(spec.op->type)
          ? CompileConvolutionOfNothing(device, spec)
          : Compile(device, tf32, spec);
  if (task.ok()) return task;
  return Status(task.status().code(),
                device->name() + " cannot run " + ToString(spec.op->type) +
                    " '" + spec.op->name + "': " + task.status().message());
}

}  // namespace ios::cuda

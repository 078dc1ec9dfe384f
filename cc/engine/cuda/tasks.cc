#include "cc/engine/cuda/tasks.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/engine/cuda/convolution_tasks.h"
#include "cc/engine/cuda/function_task.h"
#include "cc/engine/cuda/kernels/kernels.h"
#include "cc/engine/cuda/kernels/normalization_kernels.h"
#include "cc/engine/cuda/kernels/reduction_kernels.h"
#include "cc/engine/cuda/kernels/spatial_kernels.h"
#include "cc/engine/cuda/kernels/window_kernel.h"
#include "cc/engine/cuda/slices.h"

namespace ios::cuda {
namespace {

using Layout = CudaParameter::Layout;

void* Advance(void* tensor, int64_t elements, DataType dtype) {
  return static_cast<char*>(tensor) + elements * SizeOf(dtype);
}

TaskOr CompilePool(Device* device, const TaskSpec& spec) {
  WindowSpec window = WindowOf(spec);
  window.kind = spec.op->pool == PoolKind::kMax ? WindowSpec::kMaximum
                                                : WindowSpec::kAverage;
  window.pads_zeros = spec.op->pads_zeros;
  IOS_ASSIGN_OR_RETURN(const WindowKernel kernel,
                       WindowKernel::Create(device, window));
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue({inputs[0], nullptr, nullptr, nullptr, output},
                          lane.stream);
  });
}

TaskOr CompileConcat(Device* device, const TaskSpec& spec) {
  struct CopiedInput {
    size_t index;
    int64_t channel;  // first one in the output
  };
  std::vector<CopiedInput> copied;
  std::vector<CopyKernel::Views> copies;
  int64_t channel = 0;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const TensorView& input = spec.inputs[i];
    if (!spec.in_place[i]) {
      copied.push_back({i, channel});
      copies.push_back({input, ChannelsOf(spec.output, channel, input.shape)});
    }
    channel += input.channels();
  }
  IOS_ASSIGN_OR_RETURN(const CopyKernel kernel,
                       CopyKernel::Create(device, spec.dtype, copies));
  return MakeTask(
      [kernel, copied, dtype = spec.dtype](
          const void* const* inputs, void* output, const LaneResources& lane) {
        std::vector<const void*> from;
        std::vector<void*> to;
        for (const CopiedInput& input : copied) {
          from.push_back(inputs[input.index]);
          to.push_back(Advance(output, input.channel, dtype));
        }
        return kernel.Enqueue(from.data(), to.data(), lane.stream);
      });
}

// Makes a task from a kernel that reads only the first input.
template <typename Kernel>
TaskOr TaskOfOneInput(const Kernel& kernel) {
  return MakeTask([kernel](const void* const* inputs, void* output,
                           const LaneResources& lane) {
    return kernel.Enqueue(inputs[0], output, lane.stream);
  });
}

// Makes a task from a kernel that reads the first input and two weights.
template <typename Kernel>
TaskOr TaskWithScaleAndShift(const Kernel& kernel, const TaskSpec& spec) {
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

// Compiles a sum, or an activation, which is a sum of one term.
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
  if (op.constant_first) std::swap(first, second);
  IOS_ASSIGN_OR_RETURN(
      const BinaryKernel kernel,
      BinaryKernel::Create(device, {spec.dtype, op.function, first, second,
                                    op.activation, spec.output}));
  return MakeTask(
      [kernel, constant, swapped = op.constant_first](
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
  return TaskWithScaleAndShift(kernel, spec);
}

TaskOr CompileGlobalPool(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(
      const GlobalPoolKernel kernel,
      GlobalPoolKernel::Create(device, spec.dtype, spec.inputs[0],
                               spec.op->pool, spec.output));
  return TaskOfOneInput(kernel);
}

TaskOr CompileNormalization(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(
      const NormalizationKernel kernel,
      NormalizationKernel::Create(device, spec.dtype, *spec.op, spec.inputs[0],
                                  spec.output));
  return TaskWithScaleAndShift(kernel, spec);
}

TaskOr CompileSoftmax(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(
      const SoftmaxKernel kernel,
      SoftmaxKernel::Create(device, spec.dtype, spec.inputs[0], spec.output));
  return TaskOfOneInput(kernel);
}

// Compiles an operator whose kernel is in spatial_kernels.h.
template <typename Kernel>
TaskOr CompileSpatial(Device* device, const TaskSpec& spec) {
  IOS_ASSIGN_OR_RETURN(const Kernel kernel,
                       Kernel::Create(device, spec.dtype, *spec.op,
                                      spec.inputs[0], spec.output));
  return TaskOfOneInput(kernel);
}

TaskOr CompilePad(Device* device, const TaskSpec& spec) {
  const Padding& padding = spec.op->padding;
  IOS_ASSIGN_OR_RETURN(
      const PadKernel kernel,
      PadKernel::Create(device,
                        {spec.dtype, spec.inputs[0], spec.output, padding.top,
                         padding.left, spec.op->pad_mode, spec.op->pad_value,
                         spec.op->channel_padding[0]}));
  return TaskOfOneInput(kernel);
}

TaskOr Compile(Device* device, bool tf32, const TaskSpec& spec) {
  switch (spec.op->type) {
    case OperatorType::kConv2D:
    case OperatorType::kConv2DTranspose:
    case OperatorType::kSepConv:
      return CompileConvolution(device, tf32, spec);
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
  return Unimplemented("there is no CUDA kernel for this operator type");
}

}  // namespace

StatusOr<std::unique_ptr<Task>> CompileTask(Device* device, bool tf32,
                                            const TaskSpec& spec) {
  TaskOr task = Compile(device, tf32, spec);
  if (task.ok()) return task;
  return Status(task.status().code(),
                device->name() + " cannot run " + ToString(spec.op->type) +
                    " '" + spec.op->name + "': " + task.status().message());
}

}  // namespace ios::cuda

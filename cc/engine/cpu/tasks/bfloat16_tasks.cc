#include "cc/engine/cpu/tasks/bfloat16_tasks.h"

#include "cc/engine/cpu/kernels/depthwise.h"
#include "cc/engine/cpu/tasks/bfloat16_product_task.h"
#include "cc/engine/cpu/tasks/converted.h"
#include "cc/engine/cpu/tasks/kernel_task.h"
#include "cc/engine/cpu/tasks/rows.h"
#include "cc/engine/cpu/tasks/separable.h"

namespace ios::cpu {
namespace {

// Returns whether the operator is a depthwise convolution that is computed row
// by row, which is fast for both of its algorithms. Only such a convolution
// absorbs the convolution before it.
bool StreamsRows(const TaskSpec& spec) {
  return spec.op->type == OperatorType::kConv2D &&
         (spec.operands[0].absorbed ||
          CanStreamRows(*spec.op, spec.inputs[0].shape, spec.output.shape));
}

// Returns whether the operator has a kernel for bfloat16 tensors.
bool HasKernel(const TaskSpec& spec) {
  if (spec.reads_nothing() && IsConvolution(spec.op->type)) return false;
  switch (spec.op->type) {
    case OperatorType::kConv2D:
      return spec.op->groups == 1 || StreamsRows(spec);
    case OperatorType::kSepConv:
      return Depthwise<BFloat16>::Takes(*spec.op, spec.inputs[0].shape,
                                        spec.output.shape);
    case OperatorType::kMatMul:
      return !spec.reads_nothing();
    case OperatorType::kConv2DTranspose:
      return false;
    default:
      return true;
  }
}

// Returns whether this kernel can write a float32 output.
bool WritesFloats(const TaskSpec& spec) {
  return !StreamsRows(spec) && (spec.op->type == OperatorType::kConv2D ||
                                spec.op->type == OperatorType::kMatMul);
}

// Returns the task of an operator. HasKernel() must be true, and the tensors
// must have the types that the kernel reads and writes.
std::unique_ptr<Task> MakeTask(const TaskSpec& spec,
                               const dnnl::engine& engine) {
  if (StreamsRows(spec)) return MakeRowsTask(spec, engine);
  switch (spec.op->type) {
    case OperatorType::kConv2D:
    case OperatorType::kMatMul:
      return MakeBFloat16ProductTask(spec, engine);
    case OperatorType::kPool:
      return MakePoolTask(spec);
    case OperatorType::kSepConv:
      return MakeSepConvTask(spec, engine);
    default:
      return MakeKernelTask(spec);
  }
}

}  // namespace

StatusOr<std::unique_ptr<Task>> CompileBFloat16Task(
    const TaskSpec& spec, const dnnl::engine& engine) {
  if (!HasKernel(spec)) {
    return MakeConvertedTask(spec, DataType::kFloat32, DataType::kFloat32,
                             engine);
  }
  const bool writes_floats =
      spec.output.dtype != DataType::kBFloat16 && WritesFloats(spec);
  const DataType output =
      writes_floats ? DataType::kFloat32 : DataType::kBFloat16;
  if (!HasTypes(spec, DataType::kBFloat16, output)) {
    return MakeConvertedTask(spec, DataType::kBFloat16, output, engine);
  }
  return MakeTask(spec, engine);
}

}  // namespace ios::cpu

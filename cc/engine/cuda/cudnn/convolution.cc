#include "cc/engine/cuda/cudnn/convolution.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/engine/cuda/cudnn/convolution_tensors.h"
#include "cc/engine/cuda/cudnn/cudnn_handle.h"
#include "cc/engine/cuda/cudnn/plan_cache.h"
#include "cc/engine/cuda/cudnn/plan_search.h"
#include "cc/engine/cuda/timing/measure_work.h"
#include "cc/engine/host/shared_objects.h"

namespace ios::cuda {
namespace {

// The alignment of tensors in a lane's memory, in bytes.
constexpr int64_t kScratchAlignment = 256;

int64_t AlignUp(int64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment *
         kScratchAlignment;
}

// Returns whether cuDNN has only few kernels for the whole spec, all compiled
// at run time, but many for the convolution with its bias. The reason is that
// cuDNN's precompiled kernels support relu only, and for transposed
// convolutions neither bias nor activation.
bool FewKernelsForAll(const ConvolutionSpec& spec) {
  if (spec.transposed) {
    return spec.bias || spec.activation != Activation::kNone;
  }
  return (spec.activation != Activation::kNone &&
          spec.activation != Activation::kRelu) ||
         (spec.residual && !IsDense(*spec.residual, spec.dtype));
}

// Returns whether cuDNN has only few kernels for a spec, all compiled at run
// time, but many for the same spec with a bias. The reason is that cuDNN's
// precompiled kernels support an activation or a residual only together with a
// bias.
bool NeedsBias(const ConvolutionSpec& spec) {
  return !spec.transposed && !spec.bias &&
         (spec.residual || spec.activation != Activation::kNone);
}

// Returns zeros on the device. Convolutions of equal numbers of filters share
// them.
StatusOr<std::shared_ptr<const void>> MakeZeros(const Device* device,
                                                int64_t bytes) {
  static auto* const shared =
      new SharedObjects<std::pair<const Device*, int64_t>, const void>;
  if (auto known = shared->Find({device, bytes})) return known;
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> zeros, device->Allocate(bytes));
  IOS_RETURN_IF_ERROR(
      device->Upload(std::vector<char>(bytes).data(), bytes, zeros.get()));
  return shared->Put({device, bytes}, std::move(zeros));
}

// The values that the plan cache keeps under FormKey().
constexpr char kWhole[] = "whole", kSteps[] = "steps";

std::string FormKey(const ConvolutionSpec& spec) {
  return "form of " + ToString(spec);
}

void* At(const LaneResources& lane, int64_t offset) {
  return static_cast<char*>(lane.scratch) + offset;
}

}  // namespace

StatusOr<std::unique_ptr<Convolution>> Convolution::Create(
    const Device* device, const ConvolutionSpec& spec, bool may_measure) {
  const Device::Scope scope(device);
  if (!FewKernelsForAll(spec)) return CreateFirst(device, spec, may_measure);
  const auto create_steps = [&] {
    return Create(
        device, spec, may_measure,
        {spec.transposed ? Form::kNothing : Form::kBias, false, false});
  };
  const std::optional<bool> known = StepsAreKnownFaster(device, spec);
  if (known.value_or(!may_measure)) {
    StatusOr<std::unique_ptr<Convolution>> steps = create_steps();
    if (steps.ok()) return steps;
  }
  IOS_ASSIGN_OR_RETURN(std::unique_ptr<Convolution> first,
                       CreateFirst(device, spec, may_measure));
  if (!first->whole() || known || !may_measure) return first;
  StatusOr<std::unique_ptr<Convolution>> steps = create_steps();
  if (!steps.ok()) return first;
  IOS_ASSIGN_OR_RETURN(const bool faster,
                       StepsAreFaster(device, spec, *first, **steps));
  return faster ? std::move(*steps) : std::move(first);
}

// The form in which one cuDNN graph computes everything comes first, because it
// is nearly always fastest. Other forms are needed because cuDNN may not
// support asymmetric padding, or views that are not dense.
std::vector<Convolution::Form> Convolution::Layouts(
    const ConvolutionSpec& spec) {
  const auto [top, bottom, left, right] = spec.padding;
  const bool input_dense = IsDense(spec.input, spec.dtype);
  const bool output_dense = IsDense(spec.output, spec.dtype);
  std::vector<Form> layouts = {{}};
  if (spec.transposed) {
    Form form;
    form.cut_output = true;
    layouts.push_back(form);
    form.copy_input = !input_dense;
    if (!input_dense) layouts.push_back(form);
    return layouts;
  }
  if (top != bottom || left != right) {
    layouts.push_back({Form::kAll, /*copy_input=*/true, false});
  }
  if (!input_dense || !output_dense) {
    layouts.push_back({Form::kAll,
                       !input_dense || top != bottom || left != right,
                       !output_dense});
  }
  return layouts;
}

StatusOr<std::unique_ptr<Convolution>> Convolution::CreateFirst(
    const Device* device, const ConvolutionSpec& spec, bool may_measure) {
  std::vector<Form::Fused> fusions = {Form::kAll};
  if (spec.residual || spec.activation != Activation::kNone) {
    fusions.push_back(Form::kBias);
  }
  if (spec.bias) fusions.push_back(Form::kNothing);
  Status failure;
  for (Form form : Layouts(spec)) {
    for (Form::Fused fused : fusions) {
      form.fused = fused;
      StatusOr<std::unique_ptr<Convolution>> made =
          Create(device, spec, may_measure, form);
      if (made.ok()) return made;
      if (made.status().code() != StatusCode::kUnimplemented) {
        return made.status();
      }
      if (failure.ok()) failure = made.status();
    }
  }
  return Unimplemented("cuDNN has no plan for a " + ToString(spec) + ": " +
                       failure.message());
}

StatusOr<std::unique_ptr<Convolution>> Convolution::Create(
    const Device* device, const ConvolutionSpec& spec, bool may_measure,
    const Form& form) {
  std::unique_ptr<Convolution> made(new Convolution);
  ConvolutionSpec plan = spec;  // the part that cuDNN computes
  if (form.fused != Form::kAll) {
    plan.residual.reset();
    plan.activation = Activation::kNone;
    if (form.fused == Form::kNothing) plan.bias = false;
  } else if (!CudnnHas(spec.activation)) {
    return Unimplemented(std::string("cuDNN does not support the activation ") +
                         ios::ToString(spec.activation));
  }
  if (NeedsBias(plan)) {
    plan.bias = true;
    IOS_ASSIGN_OR_RETURN(
        made->zeros_,
        MakeZeros(device, plan.output.channels() * SizeOf(plan.dtype)));
  }
  IOS_RETURN_IF_ERROR(made->MakeCopies(device, spec, form, &plan));
  IOS_ASSIGN_OR_RETURN(made->plan_, FindPlan(device, plan, may_measure));
  IOS_RETURN_IF_ERROR(made->MakeRest(device, spec, form, plan));

  made->scratch_bytes_ = made->plan_->workspace_bytes();
  const auto reserve = [&](const TensorView& view) {
    const int64_t offset = AlignUp(made->scratch_bytes_);
    made->scratch_bytes_ = offset + SpanBytes(view, spec.dtype);
    return offset;
  };
  if (form.copy_input) made->input_offset_ = reserve(plan.input);
  if (form.copy_output || form.cut_output) {
    made->output_offset_ = reserve(plan.output);
  }
  return made;
}

Status Convolution::MakeCopies(const Device* device,
                               const ConvolutionSpec& spec, const Form& form,
                               ConvolutionSpec* plan) {
  const auto [top, bottom, left, right] = spec.padding;
  const auto padded = [&](const Shape& shape) {
    return DenseView(
        {shape[0], shape[1] + top + bottom, shape[2] + left + right, shape[3]});
  };
  if (form.copy_input && spec.transposed) {
    plan->input = DenseView(spec.input.shape);
    IOS_ASSIGN_OR_RETURN(
        pad_, PadKernel::Create(device, {spec.dtype, spec.input, plan->input}));
  } else if (form.copy_input) {
    plan->input = padded(spec.input.shape);
    plan->padding = {0, 0, 0, 0};
    IOS_ASSIGN_OR_RETURN(
        pad_, PadKernel::Create(
                  device, {spec.dtype, spec.input, plan->input, top, left}));
  }
  if (form.cut_output) {
    plan->output = padded(spec.output.shape);
    plan->padding = {0, 0, 0, 0};
    IOS_ASSIGN_OR_RETURN(
        cut_, PadKernel::Create(device, {spec.dtype, plan->output, spec.output,
                                         -top, -left}));
  }
  if (form.copy_output) plan->output = DenseView(spec.output.shape);
  return Status();
}

Status Convolution::MakeRest(const Device* device, const ConvolutionSpec& spec,
                             const Form& form, const ConvolutionSpec& plan) {
  rest_bias_ = spec.bias && !plan.bias;
  rest_residual_ = spec.residual && !plan.residual;
  const bool activate = spec.activation != plan.activation;
  if (!form.copy_output && !rest_bias_ && !rest_residual_ && !activate) {
    return Status();
  }
  SumSpec sum;
  sum.dtype = spec.dtype;
  // If the output is cut, the kernel cut_ has already written the spec's
  // output.
  sum.terms = {form.cut_output ? spec.output : plan.output};
  if (rest_residual_) sum.terms.push_back(*spec.residual);
  sum.bias = rest_bias_;
  if (activate) sum.activation = spec.activation;
  sum.output = spec.output;
  IOS_ASSIGN_OR_RETURN(rest_, SumKernel::Create(device, sum));
  return Status();
}

std::optional<bool> Convolution::StepsAreKnownFaster(
    const Device* device, const ConvolutionSpec& spec) {
  const std::optional<std::string> known =
      PlanCache::Get().Find(PlanCacheName(device), FormKey(spec));
  if (known == kWhole || known == kSteps) return known == kSteps;
  return std::nullopt;
}

StatusOr<bool> Convolution::StepsAreFaster(const Device* device,
                                           const ConvolutionSpec& spec,
                                           const Convolution& whole,
                                           const Convolution& steps) {
  StatusOr<ConvolutionTensors> tensors =
      ConvolutionTensors::Create(device, spec);
  Status status = tensors.status();
  if (status.ok()) {
    status = tensors->MakeWorkspace(
        std::max(whole.scratch_bytes(), steps.scratch_bytes()));
  }
  // Uses `whole` if there is not enough memory to measure both.
  if (status.code() == StatusCode::kResourceExhausted) return false;
  IOS_RETURN_IF_ERROR(status);
  const ConvolutionPointers& pointers = tensors->pointers();
  IOS_ASSIGN_OR_RETURN(const std::shared_ptr<CudnnHandle> handle,
                       TakeCudnnHandle(device));
  std::vector<Enqueuer> works;
  for (const Convolution* convolution : {&whole, &steps}) {
    works.push_back([convolution, &pointers, &handle](CUstream stream) {
      return convolution->Enqueue(pointers,
                                  {stream, pointers.workspace, handle.get()});
    });
  }
  IOS_ASSIGN_OR_RETURN(const Comparison comparison,
                       CompareCold(device, works, [&](CUstream stream) {
                         return tensors->ReadActivations(stream);
                       }));
  const bool faster = comparison.fastest == 1;
  PlanCache::Get().Insert(PlanCacheName(device), FormKey(spec),
                          faster ? kSteps : kWhole, comparison.is_certain);
  return faster;
}

Status Convolution::Enqueue(ConvolutionPointers pointers,
                            const LaneResources& lane) const {
  if (pad_) {
    void* const padded = At(lane, input_offset_);
    IOS_RETURN_IF_ERROR(pad_->Enqueue(pointers.input, padded, lane.stream));
    pointers.input = padded;
  }
  void* const output = pointers.output;
  if (output_offset_) pointers.output = At(lane, *output_offset_);
  pointers.workspace = lane.scratch;
  if (zeros_) pointers.bias = zeros_.get();
  IOS_RETURN_IF_ERROR(plan_->Enqueue(pointers, lane.stream, lane.cudnn));
  if (cut_) {
    IOS_RETURN_IF_ERROR(cut_->Enqueue(pointers.output, output, lane.stream));
  }
  if (!rest_) return Status();
  const void* const terms[] = {cut_ ? output : pointers.output,
                               rest_residual_ ? pointers.residual : nullptr};
  return rest_->Enqueue(terms, rest_bias_ ? pointers.bias : nullptr, output,
                        lane.stream);
}

}  // namespace ios::cuda

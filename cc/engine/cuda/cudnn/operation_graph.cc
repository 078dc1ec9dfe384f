#include "cc/engine/cuda/cudnn/operation_graph.h"

#include <array>
#include <utility>
#include <vector>

namespace ios::cuda {
namespace {

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

// Describes a view. cuDNN lists dimensions in the order NCHW, whatever the
// layout is; the strides describe the layout.
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

// Describes an activation. NaN stays NaN, which is the frontend's default.
fe::PointWiseDesc DescribeActivation(const Activation& activation) {
  fe::PointWiseDescBuilder builder;
  builder.setMode(ModeOf(activation)).setComputeType(fe::DataType_t::FLOAT);
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

}  // namespace

fe::PointwiseMode_t ModeOf(const Activation& activation) {
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

fe::OperationGraph MakeGraph(const ConvolutionSpec& spec, bool identity,
                             cudnnHandle_t handle) {
  const int64_t filters = spec.output.channels();
  const fe::Tensor x = MakeTensor(kX, spec.dtype, spec.input);
  const fe::Tensor w = MakeTensor(kW, spec.dtype, FilterView(spec));

  int left = 1 + (spec.residual ? 1 : 0) + (spec.bias ? 1 : 0) +
             (spec.activation != Activation::kNone ? 1 : 0) +
             (identity ? 1 : 0);
  int64_t next_virtual = kFirstVirtual;
  // Intermediate results are virtual tensors in float32, which exist in
  // registers only.
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

}  // namespace ios::cuda

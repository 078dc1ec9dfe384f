#include "graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "machine.h"

namespace fake {
namespace {

using Values = std::vector<float>;  // dense N, H, W, C

float BFloat16ToFloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

// Drops the lowest `bits` bits of the significand, and rounds to the nearest
// value (to the even one if two are equally near).
float RoundBits(float value, int bits) {
  uint32_t wide;
  std::memcpy(&wide, &value, 4);
  if ((wide & 0x7f800000u) == 0x7f800000u) return value;
  wide += ((1u << (bits - 1)) - 1) + ((wide >> bits) & 1);
  wide &= ~((1u << bits) - 1);
  std::memcpy(&value, &wide, 4);
  return value;
}

float LoadElement(const char* from, cudnnDataType_t type) {
  if (type == CUDNN_DATA_FLOAT) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  if (type == CUDNN_DATA_HALF) {
    _Float16 value;
    std::memcpy(&value, from, 2);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return BFloat16ToFloat(bits);
}

void StoreElement(float value, cudnnDataType_t type, char* to) {
  if (type == CUDNN_DATA_FLOAT) {
    std::memcpy(to, &value, 4);
  } else if (type == CUDNN_DATA_HALF) {
    const _Float16 half = static_cast<_Float16>(value);
    std::memcpy(to, &half, 2);
  } else {
    const float rounded = RoundBits(value, 16);
    std::memcpy(to, reinterpret_cast<const char*>(&rounded) + 2, 2);
  }
}

// Calls function(address, index of the first element, number of elements) for
// each contiguous range of the tensor, and reports these accesses to the
// machine.
template <typename Function>
void ForRanges(const GraphTensor& tensor, char* base, bool write,
               const Function& function) {
  const int64_t channels = tensor.dims[1];
  const int64_t size = tensor.element_bytes();
  int64_t index = 0;
  for (int64_t n = 0; n < tensor.dims[0]; ++n) {
    for (int64_t h = 0; h < tensor.dims[2]; ++h) {
      for (int64_t w = 0; w < tensor.dims[3]; ++w, index += channels) {
        char* const at =
            base + size * (n * tensor.strides[0] + h * tensor.strides[2] +
                           w * tensor.strides[3]);
        Machine& machine = Machine::Get();
        if (!machine.Accessible(at, channels * size)) return;
        if (write) {
          machine.Write(at, channels * size);
        } else {
          machine.Read(at, channels * size);
        }
        function(at, index, channels);
      }
    }
  }
}

Values LoadTensor(const GraphTensor& tensor, void* base) {
  Values values(tensor.elements());
  ForRanges(tensor, static_cast<char*>(base), false,
            [&](const char* at, int64_t index, int64_t count) {
              for (int64_t i = 0; i < count; ++i) {
                values[index + i] =
                    LoadElement(at + i * tensor.element_bytes(), tensor.type);
              }
            });
  return values;
}

void StoreTensor(const GraphTensor& tensor, const Values& values, void* base) {
  ForRanges(tensor, static_cast<char*>(base), true,
            [&](char* at, int64_t index, int64_t count) {
              for (int64_t i = 0; i < count; ++i) {
                StoreElement(values[index + i], tensor.type,
                             at + i * tensor.element_bytes());
              }
            });
}

// y[0, count) += x · w[0, count)
__attribute__((target_clones("avx2", "default"), optimize("O3"))) void
AddMultiple(float x, const float* w, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] += x * w[i];
}

Values Convolve(const GraphOperation& op, const Values& x,
                const Values& filter) {
  const auto& in = op.x.dims;
  const auto& out = op.y.dims;
  const int64_t kernel_h = op.b.dims[2], kernel_w = op.b.dims[3];
  const int64_t group_inputs = op.b.dims[1];
  const int64_t groups = in[1] / group_inputs;
  const int64_t filters = out[1], group_filters = filters / groups;
  // Reorders the filter to [h, w, input, filter], because the innermost loop is
  // over filters.
  Values w(filter.size());
  for (int64_t k = 0; k < filters; ++k) {
    for (int64_t i = 0; i < kernel_h * kernel_w * group_inputs; ++i) {
      w[i * filters + k] = filter[k * kernel_h * kernel_w * group_inputs + i];
    }
  }
  Values y(op.y.elements());
  for (int64_t n = 0; n < out[0]; ++n) {
    for (int64_t p = 0; p < out[2]; ++p) {
      for (int64_t q = 0; q < out[3]; ++q) {
        float* const pixel = &y[((n * out[2] + p) * out[3] + q) * filters];
        for (int64_t r = 0; r < kernel_h; ++r) {
          const int64_t h =
              p * op.strides[0] + r * op.dilations[0] - op.padding_before[0];
          if (h < 0 || h >= in[2]) continue;
          for (int64_t s = 0; s < kernel_w; ++s) {
            const int64_t v =
                q * op.strides[1] + s * op.dilations[1] - op.padding_before[1];
            if (v < 0 || v >= in[3]) continue;
            const float* const source =
                &x[((n * in[2] + h) * in[3] + v) * in[1]];
            const float* const weights =
                &w[(r * kernel_w + s) * group_inputs * filters];
            for (int64_t g = 0; g < groups; ++g) {
              for (int64_t c = 0; c < group_inputs; ++c) {
                AddMultiple(source[g * group_inputs + c],
                            weights + c * filters + g * group_filters,
                            group_filters, pixel + g * group_filters);
              }
            }
          }
        }
      }
    }
  }
  return y;
}

// Computes the gradient of Convolve() with respect to its input. Groups are not
// supported.
Values ConvolveTransposed(const GraphOperation& op, const Values& x,
                          const Values& filter) {
  const auto& in = op.x.dims;
  const auto& out = op.y.dims;
  const int64_t kernel_h = op.b.dims[2], kernel_w = op.b.dims[3];
  const int64_t filters = out[1];
  Values y(op.y.elements());
  for (int64_t n = 0; n < in[0]; ++n) {
    for (int64_t p = 0; p < in[2] * in[3]; ++p) {
      const float* const source = &x[(n * in[2] * in[3] + p) * in[1]];
      for (int64_t k = 0; k < kernel_h * kernel_w; ++k) {
        const int64_t h = p / in[3] * op.strides[0] +
                          k / kernel_w * op.dilations[0] - op.padding_before[0];
        const int64_t v = p % in[3] * op.strides[1] +
                          k % kernel_w * op.dilations[1] - op.padding_before[1];
        if (h < 0 || h >= out[2] || v < 0 || v >= out[3]) continue;
        float* const pixel = &y[((n * out[2] + h) * out[3] + v) * filters];
        for (int64_t c = 0; c < in[1]; ++c) {
          AddMultiple(source[c],
                      &filter[(c * kernel_h * kernel_w + k) * filters], filters,
                      pixel);
        }
      }
    }
  }
  return y;
}

float Pointwise(const GraphOperation& op, float x, float b) {
  switch (op.mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_IDENTITY:
      return x;
    case CUDNN_POINTWISE_RELU_FWD:
      if (x < op.lower_clip) {
        return op.lower_clip + op.lower_clip_slope * (x - op.lower_clip);
      }
      return x > op.upper_clip ? op.upper_clip : x;
    case CUDNN_POINTWISE_TANH_FWD:
      return std::tanh(x);
    case CUDNN_POINTWISE_SIGMOID_FWD:
      return 1 / (1 + std::exp(-x));
    case CUDNN_POINTWISE_ELU_FWD:
      return x > 0 ? x : op.elu_alpha * std::expm1(x);
    case CUDNN_POINTWISE_SWISH_FWD:
      return x / (1 + std::exp(-op.swish_beta * x));
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
      return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x)));
    case CUDNN_POINTWISE_GELU_FWD:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
      return 0.5 * x *
             (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    default:
      return NAN;
  }
}

}  // namespace

std::vector<GraphTensor> OperationGraph::Tensors() const {
  std::map<int64_t, GraphTensor> tensors;
  for (const GraphOperation& op : operations) {
    for (const GraphTensor* tensor : {&op.x, &op.y, &op.b}) {
      if (tensor->is_virtual || (tensor == &op.b && !op.has_b)) continue;
      tensors[tensor->uid] = *tensor;
    }
  }
  std::vector<GraphTensor> out;
  for (const auto& [uid, tensor] : tensors) out.push_back(tensor);
  return out;
}

double OperationGraph::Flops() const {
  double flops = 0;
  for (const GraphOperation& op : operations) {
    flops += op.convolution ? 2.0 * (op.transposed ? op.x : op.y).elements() *
                                  op.b.elements() / op.b.dims[0]
                            : 0.0;
  }
  return flops;
}

void RunGraph(const OperationGraph& graph,
              const std::map<int64_t, void*>& memory, Arithmetic arithmetic,
              bool keeps_nan) {
  std::map<int64_t, Values> values;
  const auto load = [&](const GraphTensor& tensor) -> const Values& {
    Values& found = values[tensor.uid];
    if (found.empty() && !tensor.is_virtual) {
      found = LoadTensor(tensor, memory.at(tensor.uid));
    }
    return found;
  };
  for (const GraphOperation& op : graph.operations) {
    Values result;
    if (op.convolution) {
      Values x = load(op.x), filter = load(op.b);
      if (arithmetic != Arithmetic::kFloat32) {
        const int bits = arithmetic == Arithmetic::kTf32 ? 13 : 16;
        for (float& value : x) value = RoundBits(value, bits);
        for (float& value : filter) value = RoundBits(value, bits);
      }
      result = op.transposed ? ConvolveTransposed(op, x, filter)
                             : Convolve(op, x, filter);
    } else {
      result = load(op.x);
      const int64_t channels = op.y.dims[1];
      const Values none(1);
      const Values& b = op.has_b ? load(op.b) : none;
      const bool whole = b.size() == result.size();
      for (size_t i = 0; i < result.size(); ++i) {
        const float other = !op.has_b ? 0 : whole ? b[i] : b[i % channels];
        const bool drops = op.mode == CUDNN_POINTWISE_RELU_FWD && !keeps_nan &&
                           std::isnan(result[i]);
        result[i] = drops ? op.lower_clip : Pointwise(op, result[i], other);
      }
    }
    if (op.y.is_virtual) {
      values[op.y.uid] = std::move(result);
    } else {
      StoreTensor(op.y, result, memory.at(op.y.uid));
    }
  }
}

}  // namespace fake

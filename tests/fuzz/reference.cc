#include "tests/fuzz/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/fuzz/check.h"

namespace ios::fuzz {
namespace {

using Index = std::array<int64_t, 4>;  // of [N,H,W,C]; [N,C] is [N,1,1,C]

Index Dimensions(const Shape& shape) {
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  return {shape[0], 1, 1, shape[1]};
}

// Returns the element at an index, or null if the index is outside of the
// tensor.
const float* At(const Tensor& x, const Index& i) {
  const Index size = Dimensions(x.shape);
  for (int d = 0; d < 4; ++d) {
    if (i[d] < 0 || i[d] >= size[d]) return nullptr;
  }
  return &x.data[((i[0] * size[1] + i[1]) * size[2] + i[2]) * size[3] + i[3]];
}

float Get(const Tensor& x, const Index& i) {
  const float* value = At(x, i);
  FUZZ_CHECK(value != nullptr);
  return *value;
}

template <typename F>
Tensor Make(const Shape& shape, F value) {
  Tensor result{shape, {}};
  const Index size = Dimensions(shape);
  for (int64_t n = 0; n < size[0]; ++n) {
    for (int64_t h = 0; h < size[1]; ++h) {
      for (int64_t w = 0; w < size[2]; ++w) {
        for (int64_t c = 0; c < size[3]; ++c) {
          result.data.push_back(value(Index{n, h, w, c}));
        }
      }
    }
  }
  return result;
}

float Activated(const Activation& activation, float x) {
  switch (activation.kind) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return std::max(x, 0.0f);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kLeakyRelu:
      return x < 0 ? activation.alpha * x : x;
    default:
      FUZZ_CHECK(false);
      return 0;
  }
}

// Returns the position in the input of cell `k` of the window that belongs to
// position `output` of the output. Positions are rows if `axis` is 0, and
// columns if it is 1.
int64_t Cell(const Operator& op, int axis, int64_t output, int64_t k,
             int64_t before) {
  return output * op.strides[axis] + k * op.dilations[axis] - before;
}

// Computes a convolution. The filter has the shape [kh, kw, channels of a
// group, filters].
Tensor Convolve(const Operator& op, const Tensor& x, const Tensor& filter,
                int64_t groups, const Shape& shape) {
  const std::array<int64_t, 4> pad = ExplicitPadding(op, x.shape);
  const int64_t each = filter.shape[2], per_group = shape[3] / groups;
  return Make(shape, [&](const Index& i) {
    double sum = 0;
    for (int64_t y = 0; y < op.kernel[0]; ++y) {
      for (int64_t z = 0; z < op.kernel[1]; ++z) {
        for (int64_t c = 0; c < each; ++c) {
          const float* value = At(
              x, {i[0], Cell(op, 0, i[1], y, pad[0]),
                  Cell(op, 1, i[2], z, pad[2]), i[3] / per_group * each + c});
          if (value) sum += double{*value} * Get(filter, {y, z, c, i[3]});
        }
      }
    }
    return static_cast<float>(sum);
  });
}

Tensor Transposed(const Operator& op, const Tensor& x, const Tensor& filter,
                  const Shape& shape) {
  const std::array<int64_t, 4> cut = TransposedPadding(op, x.shape, shape);
  Tensor result = Make(shape, [](const Index&) { return 0.0f; });
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    for (int64_t h = 0; h < x.shape[1]; ++h) {
      for (int64_t w = 0; w < x.shape[2]; ++w) {
        for (int64_t y = 0; y < op.kernel[0]; ++y) {
          for (int64_t z = 0; z < op.kernel[1]; ++z) {
            for (int64_t f = 0; f < op.filters; ++f) {
              auto* to = const_cast<float*>(
                  At(result, {n, Cell(op, 0, h, y, cut[0]),
                              Cell(op, 1, w, z, cut[2]), f}));
              if (!to) continue;
              for (int64_t c = 0; c < x.shape[3]; ++c) {
                *to += Get(x, {n, h, w, c}) * Get(filter, {y, z, c, f});
              }
            }
          }
        }
      }
    }
  }
  return result;
}

Tensor Pooled(const Operator& op, const Tensor& x, const Shape& shape) {
  const std::array<int64_t, 4> pad = ExplicitPadding(op, x.shape);
  return Make(shape, [&](const Index& i) {
    double sum = 0;
    float most = -std::numeric_limits<float>::max();
    int count = 0;
    bool inside = true;
    for (int64_t y = 0; y < op.kernel[0]; ++y) {
      for (int64_t z = 0; z < op.kernel[1]; ++z) {
        const float* value = At(x, {i[0], Cell(op, 0, i[1], y, pad[0]),
                                    Cell(op, 1, i[2], z, pad[2]), i[3]});
        inside = inside && value;
        if (!value) continue;
        sum += *value;
        most = std::max(most, *value);
        ++count;
      }
    }
    if (op.pads_zeros && !inside) most = std::max(most, 0.0f);
    if (op.pool == PoolKind::kMax) return most;
    return static_cast<float>(sum / count);
  });
}

// Returns the maximum or mean of the elements of image from[0] in the ranges of
// rows, columns and channels from `from` to `to` (exclusive).
float Reduced(const Tensor& x, PoolKind kind, const Index& from,
              const Index& to) {
  double sum = 0;
  float most = -std::numeric_limits<float>::infinity();
  int64_t count = 0;
  for (int64_t h = from[1]; h < to[1]; ++h) {
    for (int64_t w = from[2]; w < to[2]; ++w) {
      for (int64_t c = from[3]; c < to[3]; ++c) {
        const float value = Get(x, {from[0], h, w, c});
        sum += value;
        most = std::max(most, value);
        ++count;
      }
    }
  }
  if (kind == PoolKind::kMax) return most;
  return static_cast<float>(kind == PoolKind::kAvg ? sum / count : sum);
}

int64_t PaddedCell(PadMode mode, int64_t cell, int64_t size) {
  if (mode == PadMode::kWrap) {
    while (cell < 0) cell += size;
    while (cell >= size) cell -= size;
  }
  const int64_t repeated = mode == PadMode::kSymmetric ? 1 : 0;
  if (mode == PadMode::kConstant) return cell;
  if (cell < 0) return -cell - repeated;
  return cell < size ? cell : 2 * size - 2 + repeated - cell;
}

float Apply(BinaryFunction function, float x, float y) {
  switch (function) {
    case BinaryFunction::kMultiply:
      return x * y;
    case BinaryFunction::kAdd:
      return x + y;
    case BinaryFunction::kSubtract:
      return x - y;
    case BinaryFunction::kDivide:
      return x / y;
    case BinaryFunction::kMaximum:
      return std::max(x, y);
    case BinaryFunction::kMinimum:
      return std::min(x, y);
    case BinaryFunction::kSquaredDifference:
      return (x - y) * (x - y);
    case BinaryFunction::kPRelu:
      return x > 0 ? x : x * y;
  }
  return 0;
}

Tensor Normalized(const Operator& op, const Tensor& x,
                  const std::vector<Tensor>& weights) {
  const Index size = Dimensions(x.shape);
  const int64_t each = size[3] / op.groups;
  struct {
    Index from = {-1}, to;
    double mean, variance;
  } known;
  return Make(x.shape, [&](const Index& i) {
    Index from = i, to = {i[0], i[1] + 1, i[2] + 1, 0};
    if (op.per_image) {
      from[1] = from[2] = 0;
      to[1] = size[1];
      to[2] = size[2];
    }
    from[3] = i[3] / each * each;
    to[3] = from[3] + each;
    // The mean and variance of a range of cells are computed only once.
    if (from != known.from || to != known.to) {
      known = {from, to, Reduced(x, PoolKind::kAvg, from, to), 0};
      int64_t count = 0;
      for (int64_t h = from[1]; h < to[1]; ++h) {
        for (int64_t w = from[2]; w < to[2]; ++w) {
          for (int64_t c = from[3]; c < to[3]; ++c, ++count) {
            known.variance += std::pow(Get(x, {i[0], h, w, c}) - known.mean, 2);
          }
        }
      }
      known.variance /= count;
    }
    return static_cast<float>((Get(x, i) - known.mean) /
                                  std::sqrt(known.variance + op.epsilon) *
                                  weights[0].data[i[3]] +
                              weights[1].data[i[3]]);
  });
}

Tensor Raw(const Operator& op, const std::vector<const Tensor*>& in,
           const std::vector<Tensor>& weights, const Shape& shape) {
  const Tensor& x = *in[0];
  const Index size = Dimensions(x.shape);
  switch (op.type) {
    case OperatorType::kConv2D:
      return Convolve(op, x, weights[0], op.groups, shape);
    case OperatorType::kConv2DTranspose:
      return Transposed(op, x, weights[0], shape);
    case OperatorType::kSepConv: {
      const Tensor activated = Make(x.shape, [&](const Index& i) {
        return Activated(op.pre_activation, Get(x, i));
      });
      Shape middle = shape;
      middle[3] = size[3] * op.multiplier;
      const Tensor deep = Convolve(op, activated, weights[0], size[3], middle);
      return Convolve(Operator(), deep, weights[1], 1, shape);
    }
    case OperatorType::kPool:
      return Pooled(op, x, shape);
    case OperatorType::kGlobalPool:
      return Make(shape, [&](const Index& i) {
        return Reduced(x, op.pool, {i[0], 0, 0, i[3]},
                       {i[0], size[1], size[2], i[3] + 1});
      });
    case OperatorType::kReduce:
      return Make(shape, [&](const Index& i) {
        return Reduced(x, op.pool, {i[0], i[1], i[2], 0},
                       {i[0], i[1] + 1, i[2] + 1, size[3]});
      });
    case OperatorType::kConcat:
      return Make(shape, [&](Index i) {
        size_t k = 0;
        while (i[3] >= in[k]->shape.back()) i[3] -= in[k++]->shape.back();
        return Get(*in[k], i);
      });
    case OperatorType::kAdd:
      return Make(shape, [&](const Index& i) {
        float sum = 0;
        for (const Tensor* term : in) sum += Get(*term, i);
        return sum;
      });
    case OperatorType::kBinary: {
      const Tensor& y = op.operand.empty() ? *in[1] : weights[0];
      const auto get = [](const Tensor& t, Index i) {
        const Index size = Dimensions(t.shape);
        for (int d = 0; d < 4; ++d) i[d] = size[d] == 1 ? 0 : i[d];
        return Get(t, i);
      };
      return Make(shape, [&](const Index& i) {
        const float a = get(x, i), b = get(y, i);
        return op.constant_first ? Apply(op.function, b, a)
                                 : Apply(op.function, a, b);
      });
    }
    case OperatorType::kMatMul:
      return Make(shape, [&](const Index& i) {
        const int64_t features = size[1] * size[2] * size[3];
        double sum = 0;
        for (int64_t k = 0; k < features; ++k) {
          sum += double{x.data[i[0] * features + k]} *
                 weights[0].data[k * op.filters + i[3]];
        }
        return static_cast<float>(sum);
      });
    case OperatorType::kSoftmax:
      return Make(shape, [&](const Index& i) {
        double sum = 0;
        for (int64_t c = 0; c < size[3]; ++c) {
          sum += std::exp(double{Get(x, {i[0], i[1], i[2], c})} - Get(x, i));
        }
        return static_cast<float>(1 / sum);
      });
    case OperatorType::kPad:
      return Make(shape, [&](const Index& i) {
        const float* value = At(
            x, {i[0], PaddedCell(op.pad_mode, i[1] - op.padding.top, size[1]),
                PaddedCell(op.pad_mode, i[2] - op.padding.left, size[2]),
                i[3] - op.channel_padding[0]});
        return value ? *value : op.pad_value;
      });
    case OperatorType::kScale:
      return Make(shape, [&](const Index& i) {
        return Get(x, i) * weights[0].data[i[3]] + weights[1].data[i[3]];
      });
    case OperatorType::kSlice:
      return Make(shape, [&](const Index& i) {
        return Get(x, {i[0], i[1], i[2], i[3] + op.offset});
      });
    case OperatorType::kNormalize:
      return Normalized(op, x, weights);
    case OperatorType::kChannelShuffle:
      return Make(shape, [&](const Index& i) {
        const int64_t each = size[3] / op.groups;
        return Get(
            x, {i[0], i[1], i[2], i[3] % op.groups * each + i[3] / op.groups});
      });
    case OperatorType::kResize:
      return Make(shape, [&](const Index& i) {
        return Get(x, {i[0], i[1] * size[1] / shape[1],
                       i[2] * size[2] / shape[2], i[3]});
      });
    case OperatorType::kDepthToSpace:
      return Make(shape, [&](const Index& i) {
        const int64_t b = op.block_size;
        return Get(x, {i[0], i[1] / b, i[2] / b,
                       (i[1] % b * b + i[2] % b) * shape[3] + i[3]});
      });
    case OperatorType::kSpaceToDepth:
      return Make(shape, [&](const Index& i) {
        const int64_t b = op.block_size, cell = i[3] / size[3];
        return Get(x, {i[0], i[1] * b + cell / b, i[2] * b + cell % b,
                       i[3] % size[3]});
      });
    case OperatorType::kLrn:
      return Make(shape, [&](const Index& i) {
        double sum = 0;
        for (int64_t c = i[3] - op.depth_radius; c <= i[3] + op.depth_radius;
             ++c) {
          const float* value = At(x, {i[0], i[1], i[2], c});
          if (value) sum += double{*value} * *value;
        }
        const auto& [bias, alpha, beta] = op.normalization;
        return static_cast<float>(Get(x, i) *
                                  std::pow(bias + alpha * sum, -beta));
      });
    case OperatorType::kActivation:
      return x;
  }
  return x;
}

}  // namespace

std::vector<Tensor> Evaluate(const Block& block,
                             const std::vector<Tensor>& inputs,
                             const std::vector<std::vector<Tensor>>& weights) {
  const StatusOr<std::vector<Shape>> shapes = InferShapes(block);
  FUZZ_CHECK(shapes.ok());
  std::vector<Tensor> values;
  for (size_t k = 0; k < block.operators.size(); ++k) {
    const Operator& op = block.operators[k];
    std::vector<const Tensor*> in;
    for (int ref : op.inputs) {
      in.push_back(ref < 0 ? &inputs[-1 - ref] : &values[ref]);
    }
    Tensor value = Raw(op, in, weights[k], (*shapes)[k]);
    const int64_t channels = value.shape.back();
    for (size_t i = 0; i < value.data.size(); ++i) {
      float& x = value.data[i];
      if (op.bias) x += weights[k].back().data[i % channels];
      if (op.residual) x += in.back()->data[i];
      x = Activated(op.activation, x);
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace ios::fuzz

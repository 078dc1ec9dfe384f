#include "cc/engine/cpu/kernels/spatial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/float_row.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/spatial.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

// Computes x[c] * (bias + alpha * s)^-beta, where s is the sum of squares[c] to
// squares[c + window - 1].
void LocalResponseRow(const float* __restrict x,
                      const float* __restrict squares, int64_t n,
                      int64_t window, const float* parameters,
                      float* __restrict sums, float* __restrict out) {
  const float bias = parameters[0], alpha = parameters[1], beta = parameters[2];
  for (int64_t c = 0; c < n; ++c) sums[c] = 0.0f;
  for (int64_t k = 0; k < window; ++k) {
    for (int64_t c = 0; c < n; ++c) sums[c] += squares[c + k];
  }
  for (int64_t c = 0; c < n; ++c) sums[c] = bias + alpha * sums[c];
  if (beta == 0.75f) {
    for (int64_t c = 0; c < n; ++c) {
      const float root = std::sqrt(sums[c]);
      out[c] = x[c] / (root * std::sqrt(root));
    }
  } else if (beta == 0.5f) {
    for (int64_t c = 0; c < n; ++c) out[c] = x[c] / std::sqrt(sums[c]);
  } else if (beta == 1.0f) {
    for (int64_t c = 0; c < n; ++c) out[c] = x[c] / sums[c];
  } else {
    for (int64_t c = 0; c < n; ++c) out[c] = x[c] * std::pow(sums[c], -beta);
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

int64_t GrainOf(int64_t floats) {
  return std::max<int64_t>(1, kGrainFloats / std::max<int64_t>(floats, 1));
}

// Copies between two images: `wide` is block_size times as high and as wide as
// `deep`, which has block_size * block_size times as many channels. Calls
// copy(offset in deep, offset in wide, floats), which copies in the wanted
// direction.
template <typename Copy>
void ForBlocks(const TensorView& deep, const TensorView& wide,
               int64_t block_size, Copy&& copy) {
  const int64_t height = deep.shape[1], width = deep.shape[2];
  const int64_t channels = wide.channels();
  // The cells of one row of a block are contiguous in `deep`, and also in
  // `wide` if `wide` is dense; then they are copied together.
  const int64_t run = wide.dense() ? block_size : 1;
  ParallelFor(
      deep.shape[0] * height * block_size,
      GrainOf(width * block_size * channels), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t in_block = row % block_size;
          for (int64_t w = 0; w < width; ++w) {
            const int64_t from = (row / block_size * width + w) * deep.pitch +
                                 in_block * block_size * channels;
            const int64_t to = (row * width + w) * block_size;
            for (int64_t k = 0; k < block_size; k += run) {
              copy(from + k * channels, (to + k) * wide.pitch, run * channels);
            }
          }
        }
      });
}

// Returns, for each output cell in one dimension, the input cell that is copied
// to it, or -1 if it gets the padding value.
std::vector<int64_t> PaddedCells(PadMode mode, int64_t before, int64_t input,
                                 int64_t output) {
  const int64_t repeated = mode == PadMode::kSymmetric ? 1 : 0;
  std::vector<int64_t> cells(output);
  for (int64_t i = 0; i < output; ++i) {
    int64_t cell = i - before;
    if (mode == PadMode::kWrap) {
      cell = (cell % input + input) % input;
    } else if (mode != PadMode::kConstant) {
      if (cell < 0) cell = -cell - repeated;
      if (cell >= input) cell = 2 * input - 2 + repeated - cell;
    }
    cells[i] = cell < 0 || cell >= input ? -1 : cell;
  }
  return cells;
}

}  // namespace

template <typename T>
void Pad(const SourceOf<T>& x, const Operator& op, const TargetOf<T>& to) {
  const Shape &in = x.view.shape, &out = to.view.shape;
  const std::vector<int64_t> rows =
      PaddedCells(op.pad_mode, op.padding.top, in[1], out[1]);
  const std::vector<int64_t> columns =
      PaddedCells(op.pad_mode, op.padding.left, in[2], out[2]);
  const int64_t before = op.channel_padding[0], after = op.channel_padding[1];
  const int64_t height = out[1], width = out[2];
  T padding;
  Narrow(&op.pad_value, 1, &padding);
  ParallelFor(
      out[0] * height, GrainOf(width * out[3]),
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t from = rows[row % height];
          for (int64_t w = 0; w < width; ++w) {
            T* cell = to.data + (row * width + w) * to.view.pitch;
            if (from < 0 || columns[w] < 0) {
              std::fill_n(cell, out[3], padding);
              continue;
            }
            std::fill_n(cell, before, padding);
            std::memcpy(
                cell + before,
                x.data + ((row / height * in[1] + from) * in[2] + columns[w]) *
                             x.view.pitch,
                in[3] * sizeof(T));
            std::fill_n(cell + before + in[3], after, padding);
          }
        }
      });
}

template <typename T>
void DepthToSpace(const SourceOf<T>& x, int64_t block_size,
                  const TargetOf<T>& to) {
  ForBlocks(x.view, to.view, block_size,
            [&](int64_t deep, int64_t wide, int64_t floats) {
              std::memcpy(to.data + wide, x.data + deep, floats * sizeof(T));
            });
}

template <typename T>
void SpaceToDepth(const SourceOf<T>& x, int64_t block_size,
                  const TargetOf<T>& to) {
  ForBlocks(to.view, x.view, block_size,
            [&](int64_t deep, int64_t wide, int64_t floats) {
              std::memcpy(to.data + deep, x.data + wide, floats * sizeof(T));
            });
}

template <typename T>
void LocalResponseNormalization(const SourceOf<T>& x, const Operator& op,
                                const TargetOf<T>& to) {
  const int64_t channels = x.view.channels();
  const int64_t radius = std::min(op.depth_radius, channels);
  ParallelFor(x.view.pixels(), GrainOf(channels * (2 * radius + 1)),
              [&](int64_t begin, int64_t end) {
                // Squares of channels, with zeros before the first and after
                // the last channel.
                std::vector<float> squares(channels + 2 * radius, 0.0f);
                std::vector<float> sums(channels);
                LongFloatRow<T> row(channels), result(channels);
                for (int64_t p = begin; p < end; ++p) {
                  const float* from = row.Read(At(x, p, 0), channels);
                  for (int64_t c = 0; c < channels; ++c) {
                    squares[radius + c] = from[c] * from[c];
                  }
                  IOS_DISPATCH(LocalResponseRow)
                  (from, squares.data(), channels, 2 * radius + 1,
                   op.normalization.data(), sums.data(),
                   result.Begin(At(to, p, 0)));
                  result.Finish(channels, At(to, p, 0));
                }
              });
}

#define IOS_INSTANTIATE(T)                                                     \
  template void Pad(const SourceOf<T>&, const Operator&, const TargetOf<T>&);  \
  template void DepthToSpace(const SourceOf<T>&, int64_t, const TargetOf<T>&); \
  template void SpaceToDepth(const SourceOf<T>&, int64_t, const TargetOf<T>&); \
  template void LocalResponseNormalization(                                    \
      const SourceOf<T>&, const Operator&, const TargetOf<T>&);
IOS_INSTANTIATE(float)
IOS_INSTANTIATE(BFloat16)
#undef IOS_INSTANTIATE

}  // namespace ios::cpu

#endif  // IOS_TARGET

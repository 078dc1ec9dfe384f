#include "cc/engine/cpu/kernels/pool.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/pool.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"
#include "cc/engine/cpu/kernels/registers-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

using Vector = Native::Vector;
using Words = Native::Words;

// The number of bfloat16 numbers in a register.
constexpr int64_t kHalves = 2 * Width<Vector>();

IOS_INLINE Pair<Vector> Load(const BFloat16* from, int64_t count) {
  if (count >= kHalves) return LoadPair<Vector>(from);
  BFloat16 padded[kHalves] = {};
  std::memcpy(padded, from, count * sizeof(BFloat16));
  return LoadPair<Vector>(padded);
}

// Returns a register of bfloat16 numbers. The upper halves of `even` and `odd`
// are the numbers at even and at odd places.
IOS_INLINE Words Merged(const Words& even, const Words& odd) {
  return (even >> 16) | (odd & 0xffff0000u);
}

// Returns a register of bfloat16 numbers. `together` says whether the processor
// has the instruction of RoundedTogether().
IOS_INLINE Words Rounded(const Pair<Vector>& pair,
                         [[maybe_unused]] bool together) {
#if IOS_VECTOR_BYTES == 64
  if (together) {
    // The instruction writes all even places before all odd places. The
    // permutation interleaves them.
    static constexpr uint16_t kPlaces[] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return reinterpret_cast<Words>(_mm512_maskz_permutexvar_epi16(
        0xffffffff, _mm512_loadu_si512(kPlaces),
        reinterpret_cast<__m512i>(RoundedTogether(pair.even, pair.odd))));
  }
#endif
  return Merged(Rounded(pair.even), Rounded(pair.odd));
}

IOS_INLINE void Store(const Words& words, int64_t count, BFloat16* to) {
  if (count >= kHalves) {
    std::memcpy(to, &words, sizeof(words));
  } else {
    BFloat16 all[kHalves];
    std::memcpy(all, &words, sizeof(words));
    std::memcpy(to, all, count * sizeof(BFloat16));
  }
}

template <PoolKind kKind>
IOS_INLINE void Join(const Vector& v, Vector* result) {
  if (kKind != PoolKind::kMax) {
    *result += v;
    return;
  }
#if IOS_VECTOR_BYTES == 64
  // For AVX-512, compilers would turn the expression below into two
  // instructions.
  *result = _mm512_maskz_max_ps(0xffff, v, *result);
#else
  *result = v > *result ? v : *result;
#endif
}

// Pools `kPairs` registers of channels, or a part of one register.
template <PoolKind kKind, int kPairs>
IOS_INLINE void PoolChannels(const BFloat16* x,
                             const WindowPool::Window& window, int64_t count,
                             BFloat16* out) {
  Pair<Vector> results[kPairs];
  for (Pair<Vector>& result : results) {
    result = {Vector{} + window.start, Vector{} + window.start};
  }
  for (int64_t row = 0; row < window.rows; ++row) {
    const BFloat16* cell = x + row * window.row_pitch;
    for (int64_t column = 0; column < window.columns; ++column) {
#pragma GCC unroll 4
      for (int k = 0; k < kPairs; ++k) {
        const Pair<Vector> pair = Load(cell + k * kHalves, count);
        Join<kKind>(pair.even, &results[k].even);
        Join<kKind>(pair.odd, &results[k].odd);
      }
      cell += window.pitch;
    }
  }
  if (kKind != PoolKind::kMax) {
    for (Pair<Vector>& result : results) {
      result.even *= window.factor;
      result.odd *= window.factor;
    }
  }
  const Activation& activation = *window.activation;
  if (IsLimit(activation)) {
    for (Pair<Vector>& result : results) {
      ActivateInRegisters(activation.kind, &result.even);
      ActivateInRegisters(activation.kind, &result.odd);
    }
    if (kKind == PoolKind::kMax) {  // the results are bfloat16 numbers
#pragma GCC unroll 4
      for (int k = 0; k < kPairs; ++k) {
        Store(Merged(reinterpret_cast<Words>(results[k].even),
                     reinterpret_cast<Words>(results[k].odd)),
              count, out + k * kHalves);
      }
      return;
    }
  } else {
    float numbers[kPairs * kHalves];
    std::memcpy(numbers, results, sizeof(results));
    ActivateRow(numbers, kPairs * kHalves, activation, numbers);
    std::memcpy(results, numbers, sizeof(results));
  }
#pragma GCC unroll 4
  for (int k = 0; k < kPairs; ++k) {
    Store(Rounded(results[k], window.rounds_together), count,
          out + k * kHalves);
  }
}

template <PoolKind kKind>
void PoolPixel(const BFloat16* x, const WindowPool::Window& window,
               int64_t channels, BFloat16* out) {
  int64_t c = 0;
  for (; c + 4 * kHalves <= channels; c += 4 * kHalves) {
    PoolChannels<kKind, 4>(x + c, window, kHalves, out + c);
  }
  for (; c + 2 * kHalves <= channels; c += 2 * kHalves) {
    PoolChannels<kKind, 2>(x + c, window, kHalves, out + c);
  }
  for (; c + kHalves <= channels; c += kHalves) {
    PoolChannels<kKind, 1>(x + c, window, kHalves, out + c);
  }
  if (c == channels) return;
  if (channels > kHalves) {  // computes some channels again
    c = channels - kHalves;
    PoolChannels<kKind, 1>(x + c, window, kHalves, out + c);
  } else {
    PoolChannels<kKind, 1>(x, window, channels, out);
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

// The lowest finite bfloat16 number.
constexpr float kLowest = -0x1.fep127f;

std::vector<WindowPool::Cells> WindowPool::CellsOf(const Operator& op, int axis,
                                                   int64_t padding,
                                                   int64_t input,
                                                   int64_t output) {
  std::vector<Cells> cells(output);
  for (int64_t i = 0; i < output; ++i) {
    const int64_t begin = i * op.strides[axis] - padding;
    const int64_t end = begin + op.kernel[axis];
    const int64_t first = std::clamp<int64_t>(begin, 0, input);
    cells[i] = {first, std::clamp(end, first, input) - first,
                begin < 0 || end > input};
  }
  return cells;
}

WindowPool::WindowPool(const Operator& op, const Shape& x, const Shape& to)
    : kind_(op.pool),
      pads_zeros_(op.pads_zeros),
      activation_(op.activation),
      rows_(CellsOf(op, 0, ExplicitPadding(op, x)[0], x[1], to[1])),
      columns_(CellsOf(op, 1, ExplicitPadding(op, x)[2], x[2], to[2])) {}

void WindowPool::Run(const SourceOf<BFloat16>& x,
                     const TargetOf<BFloat16>& to) const {
  const int64_t height = to.view.shape[1], width = to.view.shape[2];
  const int64_t channels = to.view.channels();
  const int64_t in_height = x.view.shape[1], in_width = x.view.shape[2];
  const bool is_max = kind_ == PoolKind::kMax;
  const bool rounds_together =
      BestBFloat16Products() != BFloat16Products::kNone;
  ParallelFor(
      to.view.pixels(),
      std::max<int64_t>(1, kGrainFloats / std::max<int64_t>(1, channels)),
      [&](int64_t begin, int64_t end) {
        Window window = {};
        window.row_pitch = in_width * x.view.pitch;
        window.pitch = x.view.pitch;
        window.activation = &activation_;
        window.rounds_together = rounds_together;
        for (int64_t p = begin; p < end; ++p) {
          const int64_t image = p / (height * width);
          const Cells& rows = rows_[p / width % height];
          const Cells& columns = columns_[p % width];
          window.rows = rows.count;
          window.columns = columns.count;
          const bool zeros = pads_zeros_ && (rows.cut || columns.cut);
          window.start = is_max && !zeros ? kLowest : 0.0f;
          if (!is_max) window.factor = 1.0f / (rows.count * columns.count);
          const BFloat16* const first =
              At(x, (image * in_height + rows.first) * in_width + columns.first,
                 0);
          if (is_max) {
            IOS_DISPATCH(PoolPixel<PoolKind::kMax>)
            (first, window, channels, At(to, p, 0));
          } else {
            IOS_DISPATCH(PoolPixel<PoolKind::kAvg>)
            (first, window, channels, At(to, p, 0));
          }
        }
      });
}

}  // namespace ios::cpu

#endif  // IOS_TARGET

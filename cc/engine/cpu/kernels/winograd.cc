#include "cc/engine/cpu/kernels/winograd.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/instruction_set.h"

#define IOS_INLINE inline __attribute__((always_inline))

namespace ios::cpu {
namespace {

// Channels, or filters, that lie together: a line of a cache.
constexpr int64_t kGroup = 16;
// Filters that products are made for at a time.
constexpr int64_t kBlock = 2 * kGroup;

// A product keeps kRows tiles by kVectors vectors of filters in registers.
struct Baseline {
  typedef float Vector __attribute__((vector_size(16)));
  static constexpr int kRows = 2, kVectors = 4;
};
struct Avx2 {
  typedef float Vector __attribute__((vector_size(32)));
  static constexpr int kRows = 6, kVectors = 2;
};
struct Avx512 {
  typedef float Vector __attribute__((vector_size(64)));
  static constexpr int kRows = 14, kVectors = 2;
};

template <typename V>
constexpr int64_t Width() {
  return sizeof(V) / sizeof(float);
}

int64_t MaxRows() {
  switch (BestInstructionSet()) {
    case InstructionSet::kAvx512:
      return Avx512::kRows;
    case InstructionSet::kAvx2:
      return Avx2::kRows;
    default:
      return Baseline::kRows;
  }
}

// `count` elements, or as many as there are; zeros behind them.
template <typename V>
IOS_INLINE void Load(const float* from, int64_t count, V* v) {
  if (count >= Width<V>()) {
    std::memcpy(v, from, sizeof(V));
    return;
  }
  *v = V{};
  for (int64_t i = 0; i < count; ++i) (*v)[i] = from[i];
}

template <typename V>
IOS_INLINE void Store(const V& v, int64_t count, float* to) {
  if (count >= Width<V>()) {
    std::memcpy(to, &v, sizeof(V));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = v[i];
}

// The transforms, in one dimension. A tile of side + 2 cells is taken for a
// polynomial, whose values at 0, 1, -1 (and 2, -2) and infinity are multiplied
// with those of the filter.
template <int kSide>
struct Transform;

template <>
struct Transform<2> {
  template <typename V>
  static IOS_INLINE void Input(const V* x, V* y, int step) {
    y[0] = x[0] - x[2];
    y[step] = x[1] + x[2];
    y[2 * step] = x[2] - x[1];
    y[3 * step] = x[1] - x[3];
  }
  template <typename V>
  static IOS_INLINE void Output(const V* x, V* y, int step) {
    y[0] = x[0] + (x[1] + x[2]);
    y[step] = (x[1] - x[2]) - x[3];
  }
  static constexpr double kFilter[4][3] = {
      {1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
};

template <>
struct Transform<4> {
  template <typename V>
  static IOS_INLINE void Input(const V* x, V* y, int step) {
    const V even = x[4] - 4.0f * x[2], odd = x[3] - 4.0f * x[1];
    const V even2 = x[4] - x[2], odd2 = 2.0f * (x[3] - x[1]);
    y[0] = 4.0f * x[0] - 5.0f * x[2] + x[4];
    y[step] = even + odd;
    y[2 * step] = even - odd;
    y[3 * step] = even2 + odd2;
    y[4 * step] = even2 - odd2;
    y[5 * step] = 4.0f * x[1] - 5.0f * x[3] + x[5];
  }
  template <typename V>
  static IOS_INLINE void Output(const V* x, V* y, int step) {
    const V a = x[1] + x[2], b = x[1] - x[2];
    const V c = x[3] + x[4], d = x[3] - x[4];
    y[0] = x[0] + (a + c);
    y[step] = b + 2.0f * d;
    y[2 * step] = a + 4.0f * c;
    y[3 * step] = (b + 8.0f * d) + x[5];
  }
  static constexpr double kFilter[6][3] = {
      {1.0 / 4, 0, 0},
      {-1.0 / 6, -1.0 / 6, -1.0 / 6},
      {-1.0 / 6, 1.0 / 6, -1.0 / 6},
      {1.0 / 24, 1.0 / 12, 1.0 / 6},
      {1.0 / 24, -1.0 / 12, 1.0 / 6},
      {0, 0, 1},
  };
};

int64_t Quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rounded up to an odd number of cache lines: planes that are a power of two
// apart would share few sets of a cache.
int64_t OddLines(int64_t floats) { return (Quotient(floats, 16) | 1) * 16; }

// A unit, and where its planes lie in scratch memory.
struct Unit {
  Unit(const WinogradPlan& plan, int64_t number, float* scratch) {
    const int64_t strip = number / plan.parts, part = number % plan.parts;
    first = strip * plan.tiles() / plan.strips;
    count = (strip + 1) * plan.tiles() / plan.strips - first;
    const int64_t blocks_of_filters = Quotient(plan.filters, kBlock);
    filter_begin = part * blocks_of_filters / plan.parts * kBlock;
    filter_end = std::min((part + 1) * blocks_of_filters / plan.parts * kBlock,
                          plan.filters);
    blocks = Quotient(count, MaxRows());
    rows = Quotient(count, blocks);
    block_floats = Quotient(plan.channels, kGroup) * rows * kGroup;
    tile_plane = OddLines(blocks * block_floats);
    product_plane = OddLines(count * kBlock);
    tiles = scratch;
    products = scratch + plan.planes() * tile_plane;
  }

  int64_t first, count;  // tiles
  int64_t filter_begin, filter_end;
  int64_t blocks, rows;  // tiles that are multiplied together
  int64_t block_floats, tile_plane, product_plane;
  float* tiles;     // [planes][blocks][groups of channels][rows][kGroup]
  float* products;  // [planes][tiles][kBlock]
};

// Where a tile is: its first cell in the output.
struct Place {
  Place(const WinogradPlan& plan, int64_t tile)
      : image(tile / (plan.tiles_high * plan.tiles_wide)),
        y(tile / plan.tiles_wide % plan.tiles_high * plan.side),
        x(tile % plan.tiles_wide * plan.side) {}
  int64_t image, y, x;
};

template <typename Isa, int kSide>
IOS_INLINE void TransformTiles(const WinogradPlan& plan,
                               const WinogradArguments& arguments,
                               const float* zeros, const Unit& unit) {
  using V = typename Isa::Vector;
  constexpr int kPoints = kSide + 2;
  for (int64_t i = 0; i < unit.count; ++i) {
    const Place place(plan, unit.first + i);
    const float* cells[kPoints][kPoints];
    for (int r = 0; r < kPoints; ++r) {
      const int64_t y = place.y - plan.top + r;
      const float* row = arguments.input + (place.image * plan.height + y) *
                                               plan.width *
                                               arguments.input_pitch;
      for (int k = 0; k < kPoints; ++k) {
        const int64_t x = place.x - plan.left + k;
        const bool inside =
            y >= 0 && y < plan.height && x >= 0 && x < plan.width;
        cells[r][k] = inside ? row + x * arguments.input_pitch : zeros;
      }
    }
    float* to =
        unit.tiles + i / unit.rows * unit.block_floats + i % unit.rows * kGroup;
    for (int64_t c = 0; c < plan.channels; c += kGroup) {
      const int64_t end = std::min(c + kGroup, plan.channels);
      for (int64_t e = c; e < end; e += Width<V>()) {
        V columns[kPoints][kPoints];
        for (int k = 0; k < kPoints; ++k) {
          V column[kPoints];
#pragma GCC unroll 6
          for (int r = 0; r < kPoints; ++r) {
            Load(cells[r][k] + e, end - e, &column[r]);
          }
          Transform<kSide>::Input(column, &columns[0][k], kPoints);
        }
        float* plane = to + e - c;
        for (int r = 0; r < kPoints; ++r) {
          V row[kPoints];
          Transform<kSide>::Input(columns[r], row, 1);
#pragma GCC unroll 6
          for (int k = 0; k < kPoints; ++k, plane += unit.tile_plane) {
            std::memcpy(plane, &row[k], sizeof(V));
          }
        }
      }
      to += unit.rows * kGroup;
    }
  }
}

// Of one plane: the products of kRows tiles with some vectors of filters.
template <typename Isa, int kRows, int kVectors>
IOS_INLINE void Multiply(const float* tiles, int64_t group_floats,
                         const float* filter, int64_t channels,
                         int64_t filter_step, float* products) {
  using V = typename Isa::Vector;
  constexpr int64_t kPerGroup = kGroup / Width<V>();
  V sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = V{};
  }
  for (int64_t c = 0; c < channels; c += kGroup, tiles += group_floats) {
    const int64_t count = std::min(kGroup, channels - c);
    for (int64_t i = 0; i < count; ++i, filter += kGroup) {
      V factors[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        std::memcpy(
            &factors[v],
            filter + v / kPerGroup * filter_step + v % kPerGroup * Width<V>(),
            sizeof(V));
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const float x = tiles[r * kGroup + i];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] += x * factors[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(products + r * kBlock + v * Width<V>(), &sums[r][v],
                  sizeof(V));
    }
  }
}

template <typename Isa, int kVectors, int kRows = Isa::kRows>
IOS_INLINE void MultiplyRows(int64_t rows, const float* tiles,
                             int64_t group_floats, const float* filter,
                             int64_t channels, int64_t filter_step,
                             float* products) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return MultiplyRows<Isa, kVectors, kRows - 1>(
          rows, tiles, group_floats, filter, channels, filter_step, products);
    }
  }
  Multiply<Isa, kRows, kVectors>(tiles, group_floats, filter, channels,
                                 filter_step, products);
}

// All planes of the unit, for a block of filters or what is left of them.
template <typename Isa>
IOS_INLINE void MultiplyPlanes(const WinogradPlan& plan,
                               const WinogradArguments& arguments,
                               const Unit& unit, int64_t first_filter) {
  constexpr int64_t kAtOnce = Isa::kVectors * Width<typename Isa::Vector>();
  const int64_t end = std::min(first_filter + kBlock, unit.filter_end);
  const int64_t group_floats = unit.rows * kGroup;
  const int64_t filter_step = plan.planes() * plan.channels * kGroup;
  for (int64_t plane = 0; plane < plan.planes(); ++plane) {
    for (int64_t k = first_filter; k < end; k += kAtOnce) {
      const float* filter = arguments.filter + k / kGroup * filter_step +
                            plane * plan.channels * kGroup;
      const float* tiles = unit.tiles + plane * unit.tile_plane;
      float* products =
          unit.products + plane * unit.product_plane + k - first_filter;
      for (int64_t i = 0; i < unit.count; i += unit.rows) {
        const int64_t rows = std::min(unit.rows, unit.count - i);
        if (kAtOnce == kGroup || end - k > kGroup) {
          MultiplyRows<Isa, Isa::kVectors>(rows, tiles, group_floats, filter,
                                           plan.channels, filter_step,
                                           products);
        } else {
          MultiplyRows<Isa, kGroup / Width<typename Isa::Vector>()>(
              rows, tiles, group_floats, filter, plan.channels, filter_step,
              products);
        }
        tiles += unit.block_floats;
        products += unit.rows * kBlock;
      }
    }
  }
}

// Tile `i` of the unit and some of its filters, by the definition.
void ComputeDirectly(const WinogradPlan& plan,
                     const WinogradArguments& arguments, const Place& place,
                     int64_t first_filter, int64_t count) {
  for (int64_t y = place.y; y < std::min(place.y + plan.side, plan.out_height);
       ++y) {
    for (int64_t x = place.x; x < std::min(place.x + plan.side, plan.out_width);
         ++x) {
      const int64_t pixel =
          (place.image * plan.out_height + y) * plan.out_width + x;
      float* out = arguments.output + pixel * arguments.output_pitch;
      float sums[kBlock] = {};
      for (int r = 0; r < 3; ++r) {
        for (int k = 0; k < 3; ++k) {
          const int64_t in_y = y - plan.top + r, in_x = x - plan.left + k;
          if (in_y < 0 || in_y >= plan.height) continue;
          if (in_x < 0 || in_x >= plan.width) continue;
          const float* in =
              arguments.input +
              ((place.image * plan.height + in_y) * plan.width + in_x) *
                  arguments.input_pitch;
          const float* filter = arguments.plain +
                                (r * 3 + k) * plan.channels * plan.filters +
                                first_filter;
          for (int64_t c = 0; c < plan.channels; ++c) {
            for (int64_t f = 0; f < count; ++f) {
              sums[f] += in[c] * filter[c * plan.filters + f];
            }
          }
        }
      }
      for (int64_t f = 0; f < count; ++f) {
        float& v = sums[f];
        if (arguments.bias) v += arguments.bias[first_filter + f];
        if (arguments.residual) {
          v += arguments.residual[pixel * arguments.residual_pitch +
                                  first_filter + f];
        }
        if (arguments.activation != Activation::kNone) v = v < 0.0f ? 0.0f : v;
        if (arguments.activation == Activation::kRelu6) v = v > 6.0f ? 6.0f : v;
        out[first_filter + f] = v;
      }
    }
  }
}

template <typename Isa, int kSide>
IOS_INLINE void TransformProducts(const WinogradPlan& plan,
                                  const WinogradArguments& arguments,
                                  const Unit& unit, int64_t first_filter) {
  using V = typename Isa::Vector;
  constexpr int kPoints = kSide + 2;
  const int64_t end = std::min(first_filter + kBlock, unit.filter_end);
  for (int64_t i = 0; i < unit.count; ++i) {
    const Place place(plan, unit.first + i);
    const int64_t high = std::min<int64_t>(kSide, plan.out_height - place.y);
    const int64_t wide = std::min<int64_t>(kSide, plan.out_width - place.x);
    const int64_t corner =
        (place.image * plan.out_height + place.y) * plan.out_width + place.x;
    V finite{};  // or not a number
    for (int64_t f = first_filter; f < end; f += Width<V>()) {
      const float* plane = unit.products + i * kBlock + f - first_filter;
      V columns[kSide][kPoints];
      for (int k = 0; k < kPoints; ++k) {
        V column[kPoints], transformed[kSide];
#pragma GCC unroll 6
        for (int r = 0; r < kPoints; ++r) {
          std::memcpy(&column[r],
                      plane + (r * kPoints + k) * unit.product_plane,
                      sizeof(V));
        }
        Transform<kSide>::Output(column, transformed, 1);
#pragma GCC unroll 4
        for (int r = 0; r < kSide; ++r) columns[r][k] = transformed[r];
      }
      V bias{};
      if (arguments.bias) Load(arguments.bias + f, end - f, &bias);
      for (int64_t r = 0; r < high; ++r) {
        V row[kSide];
        Transform<kSide>::Output(columns[r], row, 1);
        for (int64_t k = 0; k < wide; ++k) {
          V v = row[k] + bias;
          finite += v * 0.0f;
          const int64_t pixel = corner + r * plan.out_width + k;
          if (arguments.residual) {
            V residual;
            Load(arguments.residual + pixel * arguments.residual_pitch + f,
                 end - f, &residual);
            v += residual;
          }
          if (arguments.activation != Activation::kNone) {
            v = v < 0.0f ? V{} : v;  // keeps NaN
            if (arguments.activation == Activation::kRelu6) {
              v = v > 6.0f ? V{} + 6.0f : v;
            }
          }
          Store(v, end - f,
                arguments.output + pixel * arguments.output_pitch + f);
        }
      }
    }
    float sum = 0.0f;
    for (int64_t e = 0; e < Width<V>(); ++e) sum += finite[e];
    if (sum != 0.0f) {  // not a number
      ComputeDirectly(plan, arguments, place, first_filter, end - first_filter);
    }
  }
}

template <typename Isa, int kSide>
IOS_INLINE void RunUnits(const WinogradPlan& plan,
                         const WinogradArguments& arguments, int64_t begin,
                         int64_t end, float* scratch) {
  const int64_t zeros = Quotient(plan.channels, kGroup) * kGroup;
  std::memset(scratch, 0, zeros * sizeof(float));
  for (int64_t number = begin; number < end; ++number) {
    const Unit unit(plan, number, scratch + zeros);
    TransformTiles<Isa, kSide>(plan, arguments, scratch, unit);
    for (int64_t f = unit.filter_begin; f < unit.filter_end; f += kBlock) {
      MultiplyPlanes<Isa>(plan, arguments, unit, f);
      TransformProducts<Isa, kSide>(plan, arguments, unit, f);
    }
  }
}

// A unit's code, once for each instruction set.
template <int kSide>
void RunBaseline(const WinogradPlan& plan, const WinogradArguments& arguments,
                 int64_t begin, int64_t end, float* scratch) {
  RunUnits<Baseline, kSide>(plan, arguments, begin, end, scratch);
}
#ifdef __x86_64__
template <int kSide>
__attribute__((target("arch=x86-64-v3"))) void RunAvx2(
    const WinogradPlan& plan, const WinogradArguments& arguments, int64_t begin,
    int64_t end, float* scratch) {
  RunUnits<Avx2, kSide>(plan, arguments, begin, end, scratch);
}
template <int kSide>
__attribute__((target("arch=x86-64-v4"))) void RunAvx512(
    const WinogradPlan& plan, const WinogradArguments& arguments, int64_t begin,
    int64_t end, float* scratch) {
  RunUnits<Avx512, kSide>(plan, arguments, begin, end, scratch);
}
#endif

template <int kSide>
void TransformFilterTo(const WinogradPlan& plan, const float* filter,
                       float* to) {
  constexpr int kPoints = kSide + 2;
  const auto& factors = Transform<kSide>::kFilter;
  for (int64_t c = 0; c < plan.channels; ++c) {
    for (int64_t f = 0; f < plan.filters; ++f) {
      double rows[3][kPoints];
      for (int r = 0; r < 3; ++r) {
        const float* x =
            filter + (r * 3 * plan.channels + c) * plan.filters + f;
        const int64_t step = plan.channels * plan.filters;
        for (int p = 0; p < kPoints; ++p) {
          rows[r][p] = factors[p][0] * x[0] + factors[p][1] * x[step] +
                       factors[p][2] * x[2 * step];
        }
      }
      float* out = to +
                   (f / kGroup * plan.planes() * plan.channels + c) * kGroup +
                   f % kGroup;
      for (int p = 0; p < kPoints; ++p) {
        for (int q = 0; q < kPoints; ++q) {
          out[(p * kPoints + q) * plan.channels * kGroup] = static_cast<float>(
              factors[p][0] * rows[0][q] + factors[p][1] * rows[1][q] +
              factors[p][2] * rows[2][q]);
        }
      }
    }
  }
}

}  // namespace

WinogradPlan::WinogradPlan(const Operator& op, int cells, const Shape& input,
                           const Shape& output, int threads)
    : side(cells),
      images(input[0]),
      height(input[1]),
      width(input[2]),
      channels(input[3]),
      out_height(output[1]),
      out_width(output[2]),
      filters(op.filters),
      tiles_high(Quotient(output[1], cells)),
      tiles_wide(Quotient(output[2], cells)) {
  const std::array<int64_t, 4> pad = ExplicitPadding(op, input);
  top = pad[0];
  left = pad[2];
  // Planes of a strip fit into half of a small core's cache (in floats); but a
  // strip is long enough for its products to take longer than reading the
  // filters for it.
  constexpr int64_t kBudget = 64 * 1024, kLeast = 28;
  const int64_t per_tile = planes() * (channels + kBlock);
  const int64_t longest =
      Quotient(std::max(kBudget / per_tile, kLeast), MaxRows()) * MaxRows();
  strips = Quotient(tiles(), longest);
  if (strips > threads) strips = Quotient(strips, threads) * threads;
  strips = std::min(strips, tiles());
  const int64_t blocks = Quotient(filters, kBlock);
  parts = std::min<int64_t>(Quotient(threads, strips), blocks);
}

int64_t WinogradPlan::filter_floats() const {
  return Quotient(filters, kGroup) * planes() * channels * kGroup;
}

int64_t WinogradPlan::scratch_floats() const {
  const int64_t count = Quotient(tiles(), strips);
  const int64_t zeros = Quotient(channels, kGroup) * kGroup;
  // Blocks of tiles are filled up.
  const int64_t rows = count + MaxRows();
  return zeros + planes() * (OddLines(rows * zeros) + OddLines(count * kBlock));
}

void TransformFilter(const WinogradPlan& plan, const float* filter, float* to) {
  std::memset(to, 0, plan.filter_floats() * sizeof(float));
  if (plan.side == 2) return TransformFilterTo<2>(plan, filter, to);
  TransformFilterTo<4>(plan, filter, to);
}

void RunWinograd(const WinogradPlan& plan, const WinogradArguments& arguments,
                 int64_t begin, int64_t end, float* scratch) {
  const bool small = plan.side == 2;
  auto* run = small ? RunBaseline<2> : RunBaseline<4>;
#ifdef __x86_64__
  const InstructionSet best = BestInstructionSet();
  if (best == InstructionSet::kAvx2) run = small ? RunAvx2<2> : RunAvx2<4>;
  if (best == InstructionSet::kAvx512) {
    run = small ? RunAvx512<2> : RunAvx512<4>;
  }
#endif
  run(plan, arguments, begin, end, scratch);
}

}  // namespace ios::cpu

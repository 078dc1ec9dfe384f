// Checks quickly whether a tile is even (see winograd_guard.h), for one
// instruction set.
//
// A source includes this file, after registers-inl.h, in the part that
// foreach_target.h repeats for each instruction set. So this file does not have
// an include guard.

namespace ios::cpu::IOS_TARGET {
namespace {

template <int kBytes>
struct Integers {
  typedef int32_t Vector __attribute__((vector_size(kBytes)));
};

// A vector of as many integers as V has floats.
template <typename V>
using BitsOf = typename Integers<sizeof(V)>::Vector;

// Updates `largest`, the largest magnitude so far for each element of the
// vector, as the bits of |x|. As integers, these bits have the same order as
// |x|, and NaN comes after infinity.
template <typename V>
IOS_INLINE void KeepLarger(V x, BitsOf<V>* largest) {
  BitsOf<V> bits;
  std::memcpy(&bits, &x, sizeof(V));
  bits &= 0x7fffffff;
  *largest = bits > *largest ? bits : *largest;
}

// Returns the largest magnitude of all elements.
template <typename Bits>
IOS_INLINE float LargestOf(const Bits& bits) {
  if constexpr (sizeof(Bits) > 16) {
    using Half = typename Integers<sizeof(Bits) / 2>::Vector;
    Half halves[2];
    std::memcpy(halves, &bits, sizeof(Bits));
    return LargestOf<Half>(halves[0] > halves[1] ? halves[0] : halves[1]);
  } else {
    const int32_t largest =
        std::max(std::max(bits[0], bits[1]), std::max(bits[2], bits[3]));
    float magnitude;
    std::memcpy(&magnitude, &largest, sizeof(float));
    return magnitude;
  }
}

// A cheap check that recognises most even tiles, but not all. It uses the sum
// of squares over all cells, and the magnitudes of InnerCells(). The transforms
// load all these cells anyway.
template <typename V, int kHigh, int kWide>
class QuickGuard {
 public:
  template <typename At>
  IOS_INLINE void SetCells(const At& at) {
    for (int r = 0; r < kHigh; ++r) {
      for (int k = 0; k < kWide; ++k) cells_[r * kWide + k] = at(r, k);
    }
  }

  // Adds one vector of channels, of which the first `count` exist. `squares`
  // has, for each channel, the sum of squares over all cells of the tile.
  IOS_INLINE void Add(int64_t channel, int64_t count, V squares) {
#pragma GCC unroll 4
    for (int i = 0; i < kHigh * kWide; ++i) {
      KeepLarger(Load<V>(cells_[i] + channel, count), &largest_[i]);
    }
    KeepLarger(squares, &squares_);
  }

  // Returns true if the tile is certainly even, and false if it may be uneven.
  IOS_INLINE bool IsEven() const {
    // `squares` is at least the square of the largest magnitude.
    const float squares = LargestOf(squares_);
    if (!(squares > kLeastSquares && squares < kMostSquares)) return false;
    const auto is_even = [&](float window) {
      return squares <= kUnevenness * kUnevenness * window * window;
    };
    // This check comes first, because it is faster and often sufficient: a
    // single channel may show that each window has a magnitude close to the
    // largest magnitude of the tile.
    BitsOf<V> all = largest_[0];
    for (int i = 1; i < kHigh * kWide; ++i) {
      all = all < largest_[i] ? all : largest_[i];
    }
    if (is_even(LargestOf(all))) return true;
    for (const BitsOf<V>& largest : largest_) {
      if (!is_even(LargestOf(largest))) return false;
    }
    return true;
  }

 private:
  // The square of a smaller magnitude may be zero, and the square of a larger
  // magnitude may be infinite.
  static constexpr float kLeastSquares = 1e-30f, kMostSquares = 1e36f;

  const float* cells_[kHigh * kWide];
  BitsOf<V> largest_[kHigh * kWide] = {}, squares_{};
};

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

// PTX instructions as C++ functions, for kernels that translate.py translates.
// Every access to memory is checked: global memory by the fake GPU's tracker,
// other memory here. With PTX_FIGURES, kernels also count how well warps access
// memory.
#ifndef IOS_TF_TESTS_PTX_RUNTIME_H_
#define IOS_TF_TESTS_PTX_RUNTIME_H_

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>

#include "host_kernel.h"
#ifdef PTX_FIGURES
#include "figures.h"
#endif

extern "C" {
extern IosHostState ios_host_state;  // each translation defines its own
}

namespace ptx {

// --- Types. A register holds bits, which each instruction reads as its type.

template <class To, class From>
inline To As(From from) {
  static_assert(sizeof(To) == sizeof(From), "PTX mixes sizes");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// The operands of loads, stores and conversions may be wider than the
// instruction's type.
template <class To, class From>
inline To Resize(From from) {
  if constexpr (sizeof(To) == sizeof(From)) {
    return As<To>(from);
  } else {
    static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
    return static_cast<To>(from);
  }
}

// A register that no instruction has written has a value that no test expects.
template <class T>
inline T Poison() {
  T value;
  std::memset(&value, std::is_same_v<T, bool> ? 1 : 0xa5, sizeof(value));
  return value;
}

template <class T>
struct WiderType;
template <>
struct WiderType<uint16_t> {
  using Type = uint32_t;
};
template <>
struct WiderType<int16_t> {
  using Type = int32_t;
};
template <>
struct WiderType<uint32_t> {
  using Type = uint64_t;
};
template <>
struct WiderType<int32_t> {
  using Type = int64_t;
};
template <class T>
using Wider = typename WiderType<T>::Type;

// --- Arithmetic. Integers wrap around.

template <class T>
inline T Add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
inline T Subtract(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a - b;
  return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class T>
inline T Multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a * b;
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class T>
inline Wider<T> MultiplyWide(T a, T b) {
  return static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b);
}
template <class T>
inline T MultiplyHigh(T a, T b) {
  return static_cast<T>(MultiplyWide(a, b) >> (8 * sizeof(T)));
}
template <class T>
inline T MultiplyAdd(T a, T b, T c) {
  return Add(Multiply(a, b), c);
}
template <class T>
inline Wider<T> MultiplyAddWide(T a, T b, Wider<T> c) {
  return Add(MultiplyWide(a, b), c);
}
template <class T>
inline T Divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return Poison<T>();
  }
  return a / b;
}
template <class T>
inline T Remainder(T a, T b) {
  return b == 0 ? Poison<T>() : a % b;
}
template <class T>
inline T Reciprocal(T x) {
  return 1 / x;
}
template <class T>
inline T SquareRoot(T x) {
  return std::sqrt(x);
}
template <class T>
inline T Fma(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <class T>
inline T Absolute(T x) {
  return std::abs(x);
}
template <class T>
inline T Negate(T x) {
  if constexpr (std::is_floating_point_v<T>) return -x;
  return Subtract<T>(0, x);
}
// Maximum() and Minimum() return the other operand if one operand is NaN, and
// treat 0 as larger than -0.
template <class T>
inline T Maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return b;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}
template <class T>
inline T Minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return b;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

// Returns the result of `function`, computed with the rounding mode `mode`.
template <class Function>
inline float Rounded(int mode, Function function) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const float result = function();
  std::fesetround(before);
  return result;
}
// Volatile operands keep the compiler from computing with its own rounding.
inline float AddTowardsZero(float a, float b) {
  volatile float x = a, y = b;
  return Rounded(FE_TOWARDZERO, [&] {
    const volatile float sum = x + y;
    return sum;
  });
}
inline float FmaDown(float a, float b, float c) {
  volatile float x = a, y = b, z = c;
  return Rounded(FE_DOWNWARD, [&] {
    const volatile float sum = std::fma(x, y, z);
    return sum;
  });
}

inline float FlushToZero(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
// The GPU's result may differ in the last bits.
inline float Exp2Approximate(float x) { return std::exp2(x); }
inline float Exp2ApproximateFlushed(float x) {
  return FlushToZero(std::exp2(FlushToZero(x)));
}
inline float ReciprocalFlushed(float x) {
  return FlushToZero(1 / FlushToZero(x));
}

// --- Bits

template <class T>
inline T And(T a, T b) {
  return a & b;
}
template <class T>
inline T Or(T a, T b) {
  return a | b;
}
template <class T>
inline T Xor(T a, T b) {
  return a ^ b;
}
template <class T>
inline T Not(T a) {
  if constexpr (std::is_same_v<T, bool>) return !a;
  return ~a;
}
// A shift by more than the number of bits equals a shift by the number of bits.
template <class T>
inline T ShiftLeft(T a, uint32_t bits) {
  return bits < 8 * sizeof(T) ? static_cast<T>(a << bits) : 0;
}
template <class T>
inline T ShiftRight(T a, uint32_t bits) {
  if (bits < 8 * sizeof(T)) return a >> bits;
  return std::is_signed_v<T> && a < 0 ? -1 : 0;
}
// Replaces `length` bits of b, from bit `position`, by the lowest bits of a.
template <class T>
inline T InsertBits(T a, T b, uint32_t position, uint32_t length) {
  position &= 255;
  length &= 255;
  const T ones = length < 8 * sizeof(T) ? (T{1} << length) - 1 : ~T{0};
  const T mask = ShiftLeft(ones, position);
  return (b & ~mask) | (ShiftLeft(a, position) & mask);
}
template <class Part, class Whole>
inline Part PartOf(Whole whole, int index) {
  return static_cast<Part>(whole >> (8 * sizeof(Part) * index));
}
template <class Whole, class Part>
inline Whole Join(Part low, Part high) {
  static_assert(sizeof(Whole) == 2 * sizeof(Part));
  return static_cast<Whole>(static_cast<Whole>(high) << (8 * sizeof(Part))) |
         low;
}

// --- Choices

template <class T>
inline T Same(T a) {
  return a;
}
template <class T>
inline T Select(T a, T b, bool condition) {
  return condition ? a : b;
}
template <class T>
inline bool Unordered(T a, T b) {
  return a != a || b != b;
}

// --- Conversions

template <class To, class From>
inline To ToInteger(From x) {
  if (std::isnan(x)) return 0;
  // The powers of two that bound the type's range are exact in floating point.
  const From end = std::ldexp(From{1}, std::numeric_limits<To>::digits);
  if (x >= end) return std::numeric_limits<To>::max();
  if (x < (std::is_signed_v<To> ? -end : 0)) {
    return std::numeric_limits<To>::min();
  }
  return static_cast<To>(x);
}
inline float Saturate(float x) {
  return std::isnan(x) ? 0 : Minimum(Maximum(x, 0.0f), 1.0f);
}
inline float HalfToFloat(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  float value;
  if (exponent == 31) {
    value = fraction ? std::numeric_limits<float>::quiet_NaN()
                     : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return half & 0x8000 ? -value : value;
}
inline uint16_t FloatToHalf(float x) {
  if (std::isnan(x)) return 0x7fff;
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520) return sign | 0x7c00;
  // The exponent of the number's last bit. Subnormal numbers have the same
  // exponent as 2^-14.
  const int exponent = std::fmax(std::ilogb(magnitude), -14) - 10;
  const int units = std::nearbyint(std::ldexp(magnitude, -exponent));
  // A sum of the fraction and the exponent's field carries correctly.
  return sign | (units + ((exponent + 24) << 10));
}
inline uint16_t FloatToBfloat(float x) {
  if (std::isnan(x)) return 0x7fff;
  const uint32_t bits = As<uint32_t>(x);
  const uint32_t half = 0x8000, below = bits & 0xffff;
  const bool up = below > half || (below == half && (bits & 0x10000));
  return (bits >> 16) + up;
}

// --- Memory

template <class T, int kCount>
struct Values {
  T value[kCount];
};

// Constants of the module, which kernels may read in global memory.
struct Table {
  const void* data;
  uint64_t bytes;
};

// The uses of one word of shared memory since the block began. Threads
// count barriers, so accesses with equal counts are not ordered.
struct SharedWord {
  unsigned write_barriers, read_barriers;
  unsigned short writer, reader;  // the last one
  bool written, read, several_readers;
};

// The memory that the threads of a block share. Kernels run one block after the
// other.
struct Block {
  const char* kernel;
  const char* macros;
  unsigned char* shared;
  SharedWord* words;
  uint64_t shared_bytes;
  const Table* tables;
  uint64_t table_count;
  unsigned long number = 0;  // of the running block, among all of the process
  bool reported = false;
#ifdef PTX_FIGURES
  Figures figures{kernel, macros};
#endif

  // Called by each thread before its first instruction.
  void Enter() {
    if (number == ios_host_state.tracker->block_number) return;
    number = ios_host_state.tracker->block_number;
    reported = false;
    std::memset(shared, 0xa5, shared_bytes);
    for (uint64_t i = 0; i < (shared_bytes + 3) / 4; ++i) words[i] = {};
#ifdef PTX_FIGURES
    figures.EndBlock();
#endif
  }

  // Reports the first mistake of each block.
  void Violate(const std::string& what) {
    if (reported) return;
    reported = true;
    const std::string text = "kernel " + std::string(kernel) + what;
    ios_host_state.tracker->violate(text.c_str());
  }
};

class Thread {
 public:
  explicit Thread(Block* block)
      : block_(block), thread_(ios_host_state.thread.x) {
    block->Enter();
  }

  void Barrier() {
    ++barriers_;
    ios_host_state.barrier();
  }

  template <class T, int kCount>
  Values<T, kCount> LoadGlobal(uint64_t address, int site) {
    Values<T, kCount> values;
    const void* from = reinterpret_cast<const void*>(address);
    if (!InTable(address, sizeof(values))) {
      Count(site, address, sizeof(values), kLoad);
      if (!IosHostTouch(ios_host_state.tracker, from, sizeof(values), false)) {
        from = ios_host_state.tracker->nowhere;
      }
    }
    std::memcpy(&values, from, sizeof(values));
    return values;
  }
  template <class T, int kCount>
  void StoreGlobal(uint64_t address, const Values<T, kCount>& values,
                   int site) {
    void* to = reinterpret_cast<void*>(address);
    Count(site, address, sizeof(values), kStore);
    if (!IosHostTouch(ios_host_state.tracker, to, sizeof(values), true)) {
      to = ios_host_state.tracker->nowhere;
    }
    std::memcpy(to, &values, sizeof(values));
  }

  template <class T, int kCount>
  Values<T, kCount> LoadShared(uint64_t address, int site) {
    Values<T, kCount> values{};
    if (!Inside(address, sizeof(values), block_->shared_bytes, "shared")) {
      return values;
    }
    Count(site, address, sizeof(values), kShared);
    for (uint64_t i = address / 4; 4 * i < address + sizeof(values); ++i) {
      SharedWord& word = block_->words[i];
      if (!word.written) {
        block_->Violate(" reads shared memory that its block has not written");
      } else if (word.writer != thread_ && word.write_barriers == barriers_) {
        Race(i, word.writer, "writes", "reads");
      }
      const bool again = word.read && word.read_barriers == barriers_;
      word.several_readers =
          again && (word.several_readers || word.reader != thread_);
      word.reader = thread_;
      word.read_barriers = barriers_;
      word.read = true;
    }
    std::memcpy(&values, block_->shared + address, sizeof(values));
    return values;
  }
  template <class T, int kCount>
  void StoreShared(uint64_t address, const Values<T, kCount>& values,
                   int site) {
    if (!Inside(address, sizeof(values), block_->shared_bytes, "shared")) {
      return;
    }
    Count(site, address, sizeof(values), kShared);
    for (uint64_t i = address / 4; 4 * i < address + sizeof(values); ++i) {
      SharedWord& word = block_->words[i];
      if (word.written && word.writer != thread_ &&
          word.write_barriers == barriers_) {
        Race(i, word.writer, "writes", "writes");
      }
      if (word.read && word.read_barriers == barriers_ &&
          (word.reader != thread_ || word.several_readers)) {
        Race(i, word.reader, "reads", "writes");
      }
      word.writer = thread_;
      word.write_barriers = barriers_;
      word.written = true;
    }
    std::memcpy(block_->shared + address, &values, sizeof(values));
  }

  // Parameters and local memory; addresses count from their first byte.
  template <class T, int kCount>
  Values<T, kCount> LoadOwn(const void* memory, uint64_t bytes,
                            uint64_t address) {
    Values<T, kCount> values{};
    if (Inside(address, sizeof(values), bytes, "its own")) {
      std::memcpy(&values, static_cast<const char*>(memory) + address,
                  sizeof(values));
    }
    return values;
  }
  template <class T, int kCount>
  void StoreOwn(void* memory, uint64_t bytes, uint64_t address,
                const Values<T, kCount>& values) {
    if (Inside(address, sizeof(values), bytes, "its own")) {
      std::memcpy(static_cast<char*>(memory) + address, &values,
                  sizeof(values));
    }
  }

 private:
  enum Access { kLoad, kStore, kShared };

  bool InTable(uint64_t address, uint64_t bytes) const {
    for (uint64_t i = 0; i < block_->table_count; ++i) {
      const Table& table = block_->tables[i];
      const uint64_t begin = reinterpret_cast<uint64_t>(table.data);
      if (address >= begin && address + bytes <= begin + table.bytes) {
        return true;
      }
    }
    return false;
  }

  bool Inside(uint64_t address, uint64_t bytes, uint64_t size,
              const char* memory) {
    if (address <= size && bytes <= size - address && address % bytes == 0) {
      return true;
    }
    block_->Violate(" accesses " + std::to_string(bytes) + " bytes at " +
                    std::to_string(address) + " of " + std::to_string(size) +
                    " bytes of " + memory + " memory");
    return false;
  }

  void Race(uint64_t word, unsigned other, const char* first,
            const char* second) {
    block_->Violate(": thread " + std::to_string(other) + " " + first +
                    " word " + std::to_string(word) + " of shared memory, " +
                    "and thread " + std::to_string(thread_) + " " + second +
                    " it without a barrier between them");
  }

  void Count(int site, uint64_t address, uint64_t bytes, Access access) {
#ifdef PTX_FIGURES
    block_->figures.Count(static_cast<Figures::Kind>(access), site, thread_,
                          counts_[site]++, address, bytes);
#else
    (void)site, (void)address, (void)bytes, (void)access;
#endif
  }

  Block* const block_;
  const unsigned thread_;
  unsigned barriers_ = 0;  // that the thread has passed
#ifdef PTX_FIGURES
  unsigned counts_[kPtxSites]{};
#endif
};

inline uint64_t GlobalTimer() {
  static uint64_t now = 0;
  return now += 1000000000;
}

}  // namespace ptx

#endif  // IOS_TF_TESTS_PTX_RUNTIME_H_

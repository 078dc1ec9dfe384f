#include "cc/engine/cpu/kernels/activations.h"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/activations.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

// Elementary functions without branches, so that the compiler can vectorise
// loops that call them. Their relative errors are about 1e-7. Their polynomials
// are fitted by least squares. If v is NaN, `v < c ? c : v` is NaN, because a
// comparison with NaN is false.

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

IOS_INLINE int32_t Bits(float v) {
  int32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return bits;
}
IOS_INLINE float FromBits(int32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}
IOS_INLINE float WithSignOf(float magnitude, float v) {
  return FromBits(Bits(magnitude) | (Bits(v) & INT32_MIN));
}
IOS_INLINE float Abs(float v) { return FromBits(Bits(v) & INT32_MAX); }
IOS_INLINE float AtLeast(float v, float low) { return v < low ? low : v; }
IOS_INLINE float AtMost(float v, float high) { return v > high ? high : v; }

// Bounds to which arguments are clamped. An asm statement hides their values
// from the compiler, which would otherwise compute the function at each bound
// in advance and replace the clamp by a slow choice among three results.
struct Limits {
  float exp_most = 89.0f, exp_least = -104.0f, exp_least_normal = -87.0f;
  float cosh_most = 90.0f, mish_most = 30.0f, zero = 0.0f, one = 1.0f,
        six = 6.0f;
  Limits() { asm("" : "+m"(*this)); }
};

// A power of e: exp(v) = 2^k * (1 + rest), with |rest| < 1/2.
struct Power {
  int32_t k;
  float rest;
};
IOS_INLINE Power Reduce(float v) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: its last bit counts 1
  const float shifted = v * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = (v - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 0.00139411f;
  p = p * r + 0.00836318f;
  p = p * r + 0.04166638f;
  p = p * r + 0.16666577f;
  p = p * r + 0.5f;
  return {Bits(shifted) - Bits(kRound), r + r * r * p};
}
// Returns a - b, which wraps around on overflow. Results for NaN and infinity
// are not used.
IOS_INLINE int32_t Difference(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) -
                              static_cast<uint32_t>(b));
}
IOS_INLINE int32_t InExponent(int32_t k) {
  return static_cast<int32_t>(static_cast<uint32_t>(k) << 23);
}

// Returns 2^k. The result must be a normal number.
IOS_INLINE float Exp2(int32_t k) { return FromBits(InExponent(k + 127)); }

IOS_INLINE float Exp(float v, const Limits& limits) {
  const Power power =
      Reduce(AtLeast(AtMost(v, limits.exp_most), limits.exp_least));
  const int32_t half = power.k >> 1;
  return (1.0f + power.rest) * Exp2(half) * Exp2(power.k - half);
}
// Returns exp(v) for use in 1 + exp(v). The result is infinity above 2^127, and
// never less than the smallest normal number, which makes no difference after 1
// is added.
IOS_INLINE float ExpBeforeOneMore(float v, const Limits& limits) {
  const Power power =
      Reduce(AtLeast(AtMost(v, limits.exp_most), limits.exp_least_normal));
  return (1.0f + power.rest) * Exp2(power.k);
}
// Returns exp(v) - 1 for v <= 1. The result for larger v is wrong and must not
// be used.
IOS_INLINE float Expm1OfSmall(float v, const Limits& limits) {
  const Power power = Reduce(AtLeast(v, limits.exp_least_normal));
  const float scale = Exp2(power.k);
  return power.rest * scale + (scale - 1.0f);
}
IOS_INLINE float Expm1(float v, const Limits& limits) {
  return v > 1.0f ? Exp(v, limits) - 1.0f : Expm1OfSmall(v, limits);
}

// Computes with exp(|v|) / 2, which does not overflow before cosh(v) does.
IOS_INLINE float Cosh(float v, const Limits& limits) {
  const Power power = Reduce(AtMost(Abs(v), limits.cosh_most));
  const int32_t half = power.k >> 1;
  const float large =
      (1.0f + power.rest) * Exp2(half) * Exp2(power.k - half - 1);
  return large + 0.25f / large;
}

// Returns log(1 + m), where 1 + m is between sqrt(1/2) and sqrt(2).
IOS_INLINE float LogNearOne(float m) {
  float p = 0.06919228f;
  p = p * m - 0.11780012f;
  p = p * m + 0.11865629f;
  p = p * m - 0.1238571f;
  p = p * m + 0.14219968f;
  p = p * m - 0.16669205f;
  p = p * m + 0.20002149f;
  p = p * m - 0.24999987f;
  p = p * m + 0.33333312f;
  return m + m * m * (m * p - 0.5f);
}
IOS_INLINE float Log(float v) {
  const int32_t e = Difference(Bits(v), 0x3f3504f3) >> 23;
  const float m = FromBits(Difference(Bits(v), InExponent(e))) - 1.0f;
  float log = LogNearOne(m) + static_cast<float>(e) * 0.69314718f;
  log = v < FLT_MIN ? (v < 0.0f ? kNaN : -kInfinity) : log;
  log = v > FLT_MAX ? v : log;
  return v != v ? v : log;
}
// Returns log(1 + v) for v in [0, 1].
IOS_INLINE float Log1pOfSmall(float v) {
  const bool large = v > 0.41421356f;
  return LogNearOne(large ? 0.5f * v - 0.5f : v) + (large ? 0.69314718f : 0.0f);
}
IOS_INLINE float Log1p(float v) {
  const float w = 1.0f + v, log = Log(w);
  const float better = log + (v - (w - 1.0f)) / w;
  return w > 0.0f && v < 1e8f ? better : log;
}

IOS_INLINE float Sigmoid(float v, const Limits& limits) {
  return 1.0f / (1.0f + ExpBeforeOneMore(-v, limits));
}
IOS_INLINE float Swish(float v, float minus_alpha, const Limits& limits) {
  return v / (1.0f + ExpBeforeOneMore(minus_alpha * v, limits));
}
IOS_INLINE float Tanh(float v, const Limits& limits) {
  const float magnitude = Abs(v), z = v * v;
  float p = -0.00572163f;
  p = p * z + 0.02065522f;
  p = p * z - 0.05374515f;
  p = p * z + 0.13331515f;
  p = p * z - 0.33333285f;
  const float large =
      1.0f - 2.0f / (1.0f + ExpBeforeOneMore(2.0f * magnitude, limits));
  return magnitude < 0.625f ? v + v * z * p : WithSignOf(large, v);
}
IOS_INLINE float Softplus(float v, const Limits& limits) {
  return AtLeast(v, limits.zero) + Log1pOfSmall(Exp(-Abs(v), limits));
}

// Returns v * tanh(log(1 + e)) for e = exp(v). The argument is limited, because
// tanh is 1 in float32 if e * e is large.
IOS_INLINE float Mish(float v, const Limits& limits) {
  const float e = Exp(AtMost(v, limits.mish_most), limits);
  const float squares = e * (e + 2.0f);
  return v * (squares / (squares + 2.0f));
}

IOS_INLINE float ErfcOfMagnitude(float z, const Limits& limits) {
  const float t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.03631766f;
  p = p * t - 0.19429655f;
  p = p * t + 0.38989539f;
  p = p * t - 0.3022679f;
  p = p * t - 0.00990155f;
  p = p * t + 0.02780103f;
  p = p * t + 0.05808928f;
  p = p * t + 0.18470076f;
  p = p * t + 0.24533588f;
  p = p * t + 0.28223682f;
  p = p * t + 0.28208919f;
  return Exp(-z * z, limits) * t * p;
}
IOS_INLINE float Erfc(float v, const Limits& limits) {
  const float erfc = ErfcOfMagnitude(Abs(v), limits);
  return v < 0.0f ? 2.0f - erfc : erfc;
}
IOS_INLINE float Erf(float v, const Limits& limits) {
  const float magnitude = Abs(v), z = v * v;
  float p = 7.88912239e-5f;
  p = p * z - 8.02084231e-4f;
  p = p * z + 5.18953548e-3f;
  p = p * z - 2.68544447e-2f;
  p = p * z + 1.12836002e-1f;
  p = p * z - 3.76126271e-1f;
  p = p * z + 1.12837917f;
  const float large = 1.0f - ErfcOfMagnitude(magnitude, limits);
  return magnitude < 1.0f ? v * p : WithSignOf(large, v);
}

IOS_INLINE float Relu6(float v, const Limits& limits) {
  return AtMost(AtLeast(v, limits.zero), limits.six);
}
IOS_INLINE float Elu(float v, float above, float below, const Limits& limits) {
  return v > 0.0f ? above * v : below * Expm1OfSmall(v, limits);
}
IOS_INLINE float GeluTanh(float v, const Limits& limits) {
  return 0.5f * v *
         (1.0f + Tanh(0.79788456f * (v + 0.044715f * (v * v * v)), limits));
}

// Computes sin(v) from r, where v = k * pi + r and |r| <= pi / 2. For |v| <
// kReducible, the product of k and the first part of pi is exact.
constexpr float kReducible = 1e8f;
IOS_INLINE float Sin(float v) {
  constexpr double kRound =
      6755399441055744.0;  // 1.5 * 2^52: its last bit counts 1
  const double x = v;
  const double shifted = x * 0.3183098861837907 + kRound;
  const double k = shifted - kRound;
  const float r = static_cast<float>((x - k * 3.1415926218032837) -
                                     k * 3.1786509424591713e-8);
  int64_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  const float square = r * r;
  float p = 2.59912599e-6f;
  p = p * square - 1.98061331e-4f;
  p = p * square + 8.33300967e-3f;
  p = p * square - 0.166666567f;
  // The sign changes if k is odd.
  const int32_t sign = static_cast<int32_t>(bits << 31);
  return FromBits(Bits(r + r * square * p) ^ (sign & INT32_MIN));
}

// Sets out[i] = VALUE for each element v of x, then returns from the function.
// The activation is selected outside of these loops.
#define IOS_EACH(VALUE)                                  \
  _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) { \
    const float v = x[i];                                \
    out[i] = VALUE;                                      \
  }                                                      \
  return

// Exponents of 0.5 and -0.5 treat -0 as 0 and -infinity as infinity, as pow()
// does.
void PowerRow(const float* x, int64_t n, float exponent, float* out) {
  if (exponent == 0.5f) {
    IOS_EACH((v == -kInfinity ? kInfinity : std::sqrt(v + 0.0f)));
  }
  if (exponent == -0.5f) {
    IOS_EACH((v == -kInfinity ? 0.0f : 1.0f / std::sqrt(v + 0.0f)));
  }
  switch (static_cast<int>(exponent)) {
    case 1:
      IOS_EACH(v);
    case 2:
      IOS_EACH(v * v);
    case 3:
      IOS_EACH(v * v * v);
    case 4:
      IOS_EACH((v * v) * (v * v));
    case -1:
      IOS_EACH(1.0f / v);
    case -2:
      IOS_EACH(1.0f / (v * v));
    case -3:
      IOS_EACH(1.0f / (v * v * v));
    case -4:
      IOS_EACH(1.0f / ((v * v) * (v * v)));
  }
}

void SinRow(const float* x, int64_t n, float* out) {
  float largest = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    largest = Abs(x[i]) > largest ? Abs(x[i]) : largest;
  }
  if (largest < kReducible) {
    IOS_EACH(Sin(v));
  }
  for (int64_t i = 0; i < n; ++i) out[i] = std::sin(x[i]);
}

void ActivateRow(const float* x, int64_t n, const Activation& activation,
                 float* out) {
  const Limits limits;
  const float alpha = activation.alpha, beta = activation.beta;
  switch (activation.kind) {
    case Activation::kNone:
      IOS_EACH(v);
    case Activation::kRelu:
      IOS_EACH(AtLeast(v, 0.0f));
    case Activation::kRelu6:
      IOS_EACH(Relu6(v, limits));
    case Activation::kSigmoid:
      IOS_EACH(Sigmoid(v, limits));
    case Activation::kTanh:
      IOS_EACH(Tanh(v, limits));
    case Activation::kSwish:
      IOS_EACH(Swish(v, -alpha, limits));
    case Activation::kHardSigmoid:
      IOS_EACH(AtLeast(AtMost(alpha * v + beta, limits.one), limits.zero));
    case Activation::kHardSwish:
      IOS_EACH(v * (Relu6(v + 3.0f, limits) * (1.0f / 6.0f)));
    case Activation::kElu:
      IOS_EACH(Elu(v, 1.0f, alpha, limits));
    case Activation::kLeakyRelu:
      IOS_EACH((v > 0.0f ? v : alpha * v));
    case Activation::kSelu:
      IOS_EACH(Elu(v, 1.05070099f, 1.75809934f, limits));
    case Activation::kSoftplus:
      IOS_EACH(Softplus(v, limits));
    case Activation::kSoftsign:
      IOS_EACH(v / (1.0f + Abs(v)));
    case Activation::kGelu:
      IOS_EACH(0.5f * v * Erfc(v * -0.70710678f, limits));
    case Activation::kGeluTanh:
      IOS_EACH(GeluTanh(v, limits));
    case Activation::kMish:
      IOS_EACH(Mish(v, limits));
    case Activation::kMaximum:
      IOS_EACH(AtLeast(v, alpha));
    case Activation::kMinimum:
      IOS_EACH(AtMost(v, alpha));
    case Activation::kClip:
      IOS_EACH(AtLeast(AtMost(v, beta), alpha));
    case Activation::kThreshold:
      IOS_EACH((v > alpha ? v : 0.0f));
    case Activation::kExp:
      IOS_EACH(Exp(v, limits));
    case Activation::kExpm1:
      IOS_EACH(Expm1(v, limits));
    case Activation::kLog:
      IOS_EACH(Log(v));
    case Activation::kLog1p:
      IOS_EACH(Log1p(v));
    case Activation::kSqrt:
      IOS_EACH(std::sqrt(v));
    case Activation::kRsqrt:
      IOS_EACH(1.0f / std::sqrt(v));
    case Activation::kSquare:
      IOS_EACH(v * v);
    case Activation::kPow:
      return PowerRow(x, n, alpha, out);
    case Activation::kAbs:
      IOS_EACH(Abs(v));
    case Activation::kErf:
      IOS_EACH(Erf(v, limits));
    case Activation::kErfc:
      IOS_EACH(Erfc(v, limits));
    case Activation::kSin:
      return SinRow(x, n, out);
    case Activation::kCosh:
      IOS_EACH(Cosh(v, limits));
  }
}

#undef IOS_EACH

#if IOS_VECTOR_BYTES == 64

// Returns 1 / (1 + 2^t) with a relative error of up to 2^-12. A division would
// take longer than all of these instructions.
IOS_INLINE __m512 InverseOfOneMore(__m512 t) {
  constexpr int kDownward = 1;
  constexpr __mmask16 kAll = 0xffff;  // GCC 12 warns about forms without masks
  const __m512 fraction = _mm512_maskz_reduce_ps(kAll, t, kDownward);
  __m512 p = _mm512_set1_ps(0.07802438f);
  p = p * fraction + 0.22606736f;
  p = p * fraction + 0.69583347f;
  p = p * fraction + 0.99992522f;
  const __m512 power = _mm512_maskz_scalef_ps(kAll, p, t);
  return _mm512_maskz_rcp14_ps(kAll, power + 1.0f);
}

// Computes the sigmoid of factor * x, multiplied by x if kSwish.
template <bool kSwish>
IOS_INLINE void SigmoidRow(const float* x, int64_t n, float factor,
                           float* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 rest = n - i < 16 ? (1 << (n - i)) - 1 : 0xffff;
    const __m512 v = _mm512_maskz_loadu_ps(rest, x + i);
    const __m512 sigmoid = InverseOfOneMore(v * (factor * -1.44269504f));
    _mm512_mask_storeu_ps(out + i, rest, kSwish ? v * sigmoid : sigmoid);
  }
}

#endif

void ActivateRowForBFloat16(const float* x, int64_t n,
                            const Activation& activation, float* out) {
#if IOS_VECTOR_BYTES == 64
  if (activation == Activation::kSwish) {
    return SigmoidRow</*kSwish=*/true>(x, n, activation.alpha, out);
  }
  if (activation == Activation::kSigmoid) {
    return SigmoidRow</*kSwish=*/false>(x, n, 1.0f, out);
  }
#endif
  ActivateRow(x, n, activation, out);
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

void ActivateRow(const float* x, int64_t n, const Activation& activation,
                 float* out) {
  IOS_DISPATCH(ActivateRow)(x, n, activation, out);
}

void ActivateRowForBFloat16(const float* x, int64_t n,
                            const Activation& activation, float* out) {
  IOS_DISPATCH(ActivateRowForBFloat16)(x, n, activation, out);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET

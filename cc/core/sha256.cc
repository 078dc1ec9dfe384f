#include "cc/core/sha256.h"

#include <array>
#include <cmath>
#include <cstdint>

namespace ios {
namespace {

uint32_t RotateRight(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

// Returns the first 32 bits of the fractional part of `root`, which is a square
// root or a cube root.
uint32_t FractionBits(long double root) {
  return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
}

struct Constants {
  std::array<uint32_t, 64> round;
  std::array<uint32_t, 8> initial;
};

// Computes the constants of FIPS 180-4, sections 4.2.2 and 5.3.3, from the cube
// roots of the first 64 primes and the square roots of the first 8 primes.
Constants MakeConstants() {
  Constants c;
  int count = 0;
  for (int n = 2; count < 64; ++n) {
    bool prime = true;
    for (int d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    if (!prime) continue;
    c.round[count] = FractionBits(cbrtl(n));
    if (count < 8) c.initial[count] = FractionBits(sqrtl(n));
    ++count;
  }
  return c;
}

}  // namespace

std::string Sha256Hex(const std::string& data) {
  static const Constants constants = MakeConstants();
  std::string message = data;
  message.push_back(static_cast<char>(0x80));
  while (message.size() % 64 != 56) message.push_back('\0');
  const uint64_t bits = static_cast<uint64_t>(data.size()) * 8;
  for (int i = 7; i >= 0; --i) {
    message.push_back(static_cast<char>(bits >> (8 * i)));
  }

  std::array<uint32_t, 8> hash = constants.initial;
  for (size_t chunk = 0; chunk < message.size(); chunk += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = 0;
      for (int j = 0; j < 4; ++j) {
        w[i] = w[i] << 8 | static_cast<uint8_t>(message[chunk + 4 * i + j]);
      }
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = RotateRight(w[i - 15], 7) ^
                          RotateRight(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = RotateRight(w[i - 2], 17) ^
                          RotateRight(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = hash;
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 =
          RotateRight(e, 6) ^ RotateRight(e, 11) ^ RotateRight(e, 25);
      const uint32_t t1 =
          h + s1 + ((e & f) ^ (~e & g)) + constants.round[i] + w[i];
      const uint32_t s0 =
          RotateRight(a, 2) ^ RotateRight(a, 13) ^ RotateRight(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) hash[i] += add[i];
  }

  static const char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (uint32_t word : hash) {
    for (int i = 7; i >= 0; --i) hex.push_back(kDigits[word >> (4 * i) & 15]);
  }
  return hex;
}

}  // namespace ios

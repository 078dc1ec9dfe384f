#include "cc/engine/shared_parameters.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <tuple>
#include <utility>

#include "cc/engine/host/shared_objects.h"

namespace ios {
namespace {

using Digest = std::array<uint64_t, 4>;

// Returns a digest of four sums. Sum i covers the floats i, i + 4, i + 8, …: it
// is the value of a polynomial whose coefficients are the bits of these floats,
// at a random point of a field with 2^61 - 1 elements. The digests of two
// different arrays of n floats are equal with a probability of at most n /
// 2^63. This holds even for arrays from an attacker, because only this process
// knows the point.
Digest DigestOf(const ConstArray& array) {
  constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
  static const uint64_t point = [] {
    std::random_device random;
    return std::uniform_int_distribution<uint64_t>(1, kPrime - 1)(random);
  }();
  // Reduces `sum` modulo the prime. The result is below twice the prime.
  const auto reduced = [](uint64_t sum) {
    return (sum & kPrime) + (sum >> 61);
  };
  Digest sums = {};
  const auto add = [&](int64_t i, size_t lane) {
    uint32_t bits;
    std::memcpy(&bits, array.data + i, sizeof(bits));
    const auto product = static_cast<unsigned __int128>(sums[lane]) * point;
    sums[lane] = reduced((static_cast<uint64_t>(product) & kPrime) +
                         static_cast<uint64_t>(product >> 61) + bits);
  };
  const int64_t n = NumElements(array.shape);
  constexpr int64_t kLanes = std::tuple_size<Digest>::value;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (; i < n; ++i) add(i, i % kLanes);
  for (uint64_t& sum : sums) sum %= kPrime;
  return sums;
}

// The key of a packed parameter: everything that packing may depend on, and the
// digest of the values.
using Key =
    std::tuple<Backend*, DataType, OperatorType, int64_t, int, Shape, Digest>;

}  // namespace

StatusOr<std::shared_ptr<Parameter>> SharedParameter(Backend* backend,
                                                     DataType dtype,
                                                     const Operator& op,
                                                     int index,
                                                     const ConstArray& array) {
  const Key key = {backend, dtype,       op.type,        op.groups,
                   index,   array.shape, DigestOf(array)};
  static auto* const all = new SharedObjects<Key, Parameter>;
  if (auto known = all->Find(key)) return known;
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<Parameter> made,
                       backend->MakeParameter(array));
  return all->Put(key, std::move(made));
}

}  // namespace ios

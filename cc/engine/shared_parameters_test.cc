// Tests which weights share one parameter.
#include "cc/engine/shared_parameters.h"

#include <limits>
#include <memory>
#include <vector>

#include "cc/engine/devices.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Values;

std::shared_ptr<Parameter> Of(const Operator& op, int index,
                              const std::vector<float>& values,
                              const Shape& shape) {
  const auto backend = GetBackend("cpu");
  EXPECT(backend.ok());
  const auto parameter = SharedParameter(*backend, DataType::kFloat32, op,
                                         index, {values.data(), shape});
  EXPECT(parameter.ok());
  return *parameter;
}

TEST(EqualWeightsOfOneRoleAreOneParameter) {
  const Operator op = Conv(-1, 8, 3);
  const Shape shape = {3, 3, 4, 8};
  const std::vector<float> values = Values(3 * 3 * 4 * 8);
  const std::vector<float> equal(values.begin(), values.end());
  const auto first = Of(op, 0, values, shape);
  EXPECT(Of(op, 0, equal, shape) == first);

  for (size_t i : {size_t{0}, size_t{100}, values.size() - 1}) {
    std::vector<float> other = values;
    other[i] = -other[i];  // changes a single bit
    EXPECT(Of(op, 0, other, shape) != first);
  }
  std::vector<float> swapped = values;
  std::swap(swapped[3], swapped[4]);
  EXPECT(Of(op, 0, swapped, shape) != first);

  EXPECT(Of(op, 0, values, {3, 3, 8, 4}) != first);
  EXPECT(Of(op, 1, values, shape) != first);
  Operator grouped = op;
  grouped.groups = 2;
  EXPECT(Of(grouped, 0, values, shape) != first);
  Operator transposed = op;
  transposed.type = OperatorType::kConv2DTranspose;
  EXPECT(Of(transposed, 0, values, shape) != first);
}

TEST(ZerosOfBothSignsAndNumbersOfZerosDiffer) {
  const Operator op = Conv(-1, 8, 3);
  const auto zeros = Of(op, 1, {0.0f, 0.0f}, {2});
  EXPECT(Of(op, 1, {0.0f, -0.0f}, {2}) != zeros);
  EXPECT(Of(op, 1, {0.0f, 0.0f, 0.0f}, {3}) != zeros);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto nans = Of(op, 1, {nan, 0.0f}, {2});
  EXPECT(Of(op, 1, {nan, 0.0f}, {2}) == nans);
}

TEST(AParameterGoesWithItsLastProgram) {
  const Operator op = Conv(-1, 8, 3);
  std::weak_ptr<Parameter> gone;
  for (int i = 0; i < 3000; ++i) {
    const auto parameter = Of(op, 1, {static_cast<float>(i)}, {1});
    EXPECT(gone.expired());
    gone = parameter;
  }
}

}  // namespace
}  // namespace ios

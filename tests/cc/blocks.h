// Small blocks for unit tests, and numbers for them.
#ifndef IOS_TF_TESTS_CC_BLOCKS_H_
#define IOS_TF_TESTS_CC_BLOCKS_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/backend/device_traits.h"

namespace ios::testing {

// Returns a convolution with SAME padding and stride 1.
inline Operator Conv(int input, int64_t filters, int64_t kernel) {
  Operator op;
  op.name = "conv" + std::to_string(kernel);
  op.inputs = {input};
  op.kernel = {kernel, kernel};
  op.filters = filters;
  op.padding.type = PaddingType::kSame;
  return op;
}

inline Operator Join(OperatorType type, std::vector<int> inputs) {
  Operator op;
  op.name = ToString(type);
  op.type = type;
  op.inputs = std::move(inputs);
  return op;
}

inline Operator Slice(int input, int64_t offset, int64_t size) {
  Operator op = Join(OperatorType::kSlice, {input});
  op.offset = offset;
  op.size = size;
  return op;
}

inline Block MakeBlock(std::vector<Operator> operators,
                       std::vector<int> outputs, Shape input = {1, 8, 8, 16}) {
  Block block;
  block.inputs = {std::move(input)};
  block.operators = std::move(operators);
  block.outputs = std::move(outputs);
  return block;
}

// Returns a block of four operators: 0 and 1 read the input, 2 reads 0, and 3
// concatenates 1 and 2.
inline Block Branches() {
  return MakeBlock({Conv(-1, 2, 1), Conv(-1, 3, 3), Conv(0, 4, 3),
                    Join(OperatorType::kConcat, {1, 2})},
                   {3});
}

// Examples of the function type Absorbs. With AddsPieces(), sums absorb
// concats. With AddsTerms(), separable convolutions absorb sums.
inline bool AddsPieces(const Operator& producer, const Operator& reader,
                       const Shape&, const Shape&) {
  return producer.type == OperatorType::kConcat &&
         reader.type == OperatorType::kAdd;
}
inline bool AddsTerms(const Operator& producer, const Operator& reader,
                      const Shape&, const Shape&) {
  return producer.type == OperatorType::kAdd &&
         reader.type == OperatorType::kSepConv;
}

// Returns the traits of a device whose operators can read any view of a tensor.
inline DeviceTraits Pitched() {
  DeviceTraits device;
  device.reads_pitched = [](const Operator&) { return true; };
  return device;
}

inline std::vector<float> Values(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(1.0 + i));
  return values;
}

}  // namespace ios::testing

#endif  // IOS_TF_TESTS_CC_BLOCKS_H_

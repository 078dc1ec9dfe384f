// Tests which activations are moved.
#include "cc/core/transforms/activations.h"

#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::AddsTerms;
using testing::Conv;
using testing::Join;
using testing::MakeBlock;

bool All(const Operator&, const Operator&, const Shape&, const Shape&) {
  return true;
}

bool None(const Operator&, const Operator&, const Shape&, const Shape&) {
  return false;
}

Operator Relu(int input) {
  Operator op = Join(OperatorType::kActivation, {input});
  op.activation = Activation::kRelu;
  return op;
}

// Operators 0 and 1 are sums, 2 is a convolution, 3 is a concat of `parts`, and
// 4 is the relu of operator 3.
Block Cell(std::vector<int> parts) {
  const Operator sum = Join(OperatorType::kAdd, {-1, -1});
  return MakeBlock({sum, sum, Conv(-1, 16, 1),
                    Join(OperatorType::kConcat, std::move(parts)), Relu(3)},
                   {4});
}

TEST(SumsAreActivatedBeforeTheyAreJoined) {
  // The convolution (2) does not get the activation, because it may be slower
  // when it writes into a slice of the concat.
  Block block = Cell({0, 2, 1});
  const std::vector<Shape> before = *InferShapes(block);
  ActivateBeforeConcats(*InferShapes(block), All, &block);
  for (int i : {0, 1}) {
    EXPECT(block.operators[i].activation == Activation::kRelu);
  }
  EXPECT(block.operators[2].activation == Activation::kNone);
  EXPECT(block.operators[3].type == OperatorType::kActivation);
  EXPECT(block.operators[3].activation == Activation::kRelu);
  EXPECT(block.operators[3].inputs == std::vector<int>{2});
  EXPECT(block.operators[4].type == OperatorType::kConcat);
  EXPECT(block.operators[4].activation == Activation::kNone);
  EXPECT(block.operators[4].inputs == std::vector<int>({0, 3, 1}));
  EXPECT(Validate(block).ok());
  EXPECT(InferShapes(block)->back() == before.back());
}

TEST(WhereAllAreActivatedNothingIsLeftToDo) {
  const Operator sum = Join(OperatorType::kAdd, {-1, -1});
  Block block =
      MakeBlock({sum, sum, Join(OperatorType::kConcat, {0, 1}), Relu(2)}, {3});
  ActivateBeforeConcats(*InferShapes(block), All, &block);
  for (int i : {0, 1}) {
    EXPECT(block.operators[i].activation == Activation::kRelu);
  }
  EXPECT(block.operators[2].type == OperatorType::kConcat);
  EXPECT(block.operators[2].inputs == std::vector<int>{0});
  EXPECT(block.operators[3].type == OperatorType::kConcat);
  EXPECT(block.operators[3].inputs == std::vector<int>({2, 1}));
  EXPECT(Validate(block).ok());
}

TEST(OtherConcatsAreActivatedAfterwards) {
  // Blocks that must not change: two parts cannot be activated; no part can be
  // activated; another operator reads a part; a part is an output; the concat
  // is an output.
  std::vector<Block> others = {Cell({0, 1, 2, -1}), Cell({2, -1}), Cell({0, 2}),
                               Cell({0, 2}), Cell({0, 1})};
  others[2].operators.push_back(Conv(0, 16, 1));
  others[2].outputs = {4, 5};
  others[3].outputs = {0, 4};
  others[4].outputs = {3, 4};
  for (Block& block : others) {
    const Block before = block;
    ActivateBeforeConcats(*InferShapes(block), All, &block);
    EXPECT(ToJson(block) == ToJson(before));
  }
  Block unwanted = Cell({0, 1});
  ActivateBeforeConcats(*InferShapes(unwanted), None, &unwanted);
  EXPECT(ToJson(unwanted) == ToJson(Cell({0, 1})));
}

// Operator 1 is the sum of operator 0 and the input, and operator 2 reads the
// sum.
Block Summed() {
  Operator sum = Join(OperatorType::kAdd, {0, -1});
  sum.activation = Activation::kRelu;
  Operator reader = Conv(1, 16, 3);
  reader.type = OperatorType::kSepConv;
  return MakeBlock({Conv(-1, 16, 1), sum, reader}, {2});
}

TEST(ReadersOfTermsActivateTheirSum) {
  Block block = Summed();
  ActivateAfterSums(*InferShapes(block), AddsTerms, &block);
  EXPECT(block.operators[1].activation == Activation::kNone);
  EXPECT(block.operators[2].pre_activation == Activation::kRelu);
  EXPECT(ReaderOfTerms(block, *InferShapes(block), Readers(block), AddsTerms,
                       1) == 2);
}

TEST(OtherSumsActivateThemselves) {
  // Blocks that must not change: the sum has two readers; its reader is not a
  // SepConv; its reader reads it as the residual; the reader cannot apply the
  // activation; a term is a concat.
  std::vector<Block> others(5, Summed());
  others[0].operators.push_back(others[0].operators[2]);
  others[0].outputs = {2, 3};
  others[1].operators[2].type = OperatorType::kConv2D;
  others[2].operators[2].inputs = {0, 1};
  others[2].operators[2].residual = true;
  others[3].operators[1].activation = Activation::kTanh;
  others[4].operators[0] = Join(OperatorType::kConcat, {-1});
  for (Block& block : others) {
    const Block before = block;
    ActivateAfterSums(*InferShapes(block), AddsTerms, &block);
    EXPECT(ToJson(block) == ToJson(before));
  }
}

}  // namespace
}  // namespace ios

// Tests which pools and convolutions are swapped.
#include "cc/core/transforms/commute.h"

#include <functional>
#include <utility>
#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Join;
using testing::MakeBlock;

using Moved = std::vector<std::pair<int, int>>;

// Operator 0 is a convolution, 1 is an average pool of 0, and 2 is a 1x1
// convolution of 1.
Block Pooled() {
  Operator pool = Join(OperatorType::kPool, {0});
  pool.pool = PoolKind::kAvg;
  pool.kernel = {3, 3};
  pool.padding.type = PaddingType::kSame;
  Operator last = Conv(1, 4, 1);
  last.bias = true;
  last.activation = Activation::kRelu;
  return MakeBlock({Conv(-1, 16, 3), pool, last}, {2});
}

Moved Commute(Block* block) {
  const StatusOr<std::vector<Shape>> shapes = InferShapes(*block);
  EXPECT(shapes.ok());
  return PoolAfterConvolutions(*shapes, block);
}

TEST(PoolsChangePlacesWithConvolutionsToFewerChannels) {
  Block block = Pooled();
  EXPECT(Commute(&block) == Moved({{1, 2}}));
  const Operator &convolution = block.operators[1], &pool = block.operators[2];
  EXPECT(convolution.type == OperatorType::kConv2D && convolution.bias);
  EXPECT(convolution.inputs == std::vector<int>{0});
  EXPECT(convolution.activation == Activation::kNone);
  EXPECT(pool.type == OperatorType::kPool);
  EXPECT(pool.inputs == std::vector<int>{1});
  EXPECT(pool.activation == Activation::kRelu);
  EXPECT(Commute(&block).empty());
}

TEST(ActivationsDoNotChangePlaces) {
  // After the first swap, a second 1x1 convolution reads the pool. This
  // convolution and the pool are not swapped, because the pool now has an
  // activation.
  Block block = Pooled();
  block.operators.push_back(Conv(2, 2, 1));
  block.outputs = {3};
  Block linear = block;
  linear.operators[2].activation = Activation::kNone;
  EXPECT(Commute(&block) == Moved({{1, 2}}));
  EXPECT(Commute(&linear) == Moved({{1, 2}, {2, 3}}));
}

TEST(OthersStay) {
  const std::vector<std::function<void(Block*)>> changes = {
      [](Block* b) { b->operators[1].pool = PoolKind::kMax; },
      [](Block* b) { b->operators[1].strides = {2, 2}; },
      [](Block* b) { b->operators[1].padding.type = PaddingType::kValid; },
      [](Block* b) { b->operators[2].filters = 16; },
      [](Block* b) { b->operators[2].strides = {1, 2}; },
      [](Block* b) { b->operators[2].kernel = {1, 3}; },
      [](Block* b) { b->operators[2].inputs[0] = 0; },
      [](Block* b) { b->outputs = {1, 2}; },
      [](Block* b) { b->operators.push_back(Conv(1, 4, 1)); },
      [](Block* b) {
        b->operators[2].filters = 8;
        b->operators[2].groups = 2;
      },
  };
  for (const auto& change : changes) {
    Block block = Pooled();
    change(&block);
    const std::string before = ToJson(block);
    EXPECT(Commute(&block).empty() && ToJson(block) == before);
  }
}

}  // namespace
}  // namespace ios

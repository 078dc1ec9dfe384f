// Tests which channels are padded, and that padding does not change the results
// of a block.
#include "cc/core/transforms/pad_channels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cc/core/transforms/lower_merges.h"
#include "cc/engine/program.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Join;
using testing::MakeBlock;
using testing::Slice;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Values(int64_t count, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(std::sin(static_cast<double>(seed + i * i)));
  }
  return values;
}

using Arrays = std::vector<std::vector<std::vector<float>>>;
using Groups = std::vector<std::vector<int>>;

// Runs a block with one input on the CPU and returns its outputs.
std::vector<std::vector<float>> Run(const Block& block, const Arrays& weights,
                                    const std::vector<float>& input) {
  const std::vector<Shape> shapes = *InferShapes(block);
  Weights arrays;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const std::vector<Shape> wanted =
        WeightShapes(block.operators[i],
                     ShapeOf(block, shapes, block.operators[i].inputs[0]));
    EXPECT(wanted.size() == weights[i].size());
    arrays.emplace_back();
    for (size_t k = 0; k < wanted.size(); ++k) {
      EXPECT(NumElements(wanted[k]) ==
             static_cast<int64_t>(weights[i][k].size()));
      arrays.back().push_back({weights[i][k].data(), wanted[k]});
    }
  }
  const auto program = Program::Create(
      block, {{LoadOf(block), SequentialSchedule(block)}}, arrays, "cpu");
  EXPECT(program.ok());
  std::vector<std::vector<float>> results;
  std::vector<void*> outputs;
  for (int out : block.outputs) {
    results.emplace_back(NumElements(shapes[out]));
  }
  for (std::vector<float>& result : results) outputs.push_back(result.data());
  if (!program.ok()) return results;
  EXPECT((*program)
             ->Run({{input.data(), block.inputs[0]}}, outputs, nullptr)
             .ok());
  return results;
}

bool Close(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) < 1e-4f * std::max(1.0f, std::abs(b));
}

// Pads the block to multiples of 8, and returns the padded block. Checks that
// both compute the same outputs. The input of this comparison contains the
// values `odd`, for example infinities.
PaddedBlock Padded(const Block& block, const std::vector<float>& odd = {}) {
  const std::vector<Shape> shapes = *InferShapes(block);
  PaddedBlock padded = PadChannels(block, shapes, {8});
  EXPECT(Validate(padded.block).ok());
  EXPECT(padded.block.inputs == block.inputs);
  Arrays weights(block.operators.size());
  Arrays padded_weights(padded.block.operators.size());
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const std::vector<Shape> of_weights =
        WeightShapes(block.operators[i],
                     ShapeOf(block, shapes, block.operators[i].inputs[0]));
    const int at = padded.operators[i].back();
    EXPECT(padded.weights[at].size() == of_weights.size());
    for (size_t k = 0; k < of_weights.size(); ++k) {
      const Shape& shape = of_weights[k];
      std::vector<float> values = Values(NumElements(shape), 7 * i + k);
      for (float& value : values) value /= std::sqrt(shape.back());
      padded_weights[at].push_back(
          PadWeight(values.data(), shape, padded.weights[at][k]));
      EXPECT(NumElements(PaddedShape(shape, padded.weights[at][k])) ==
             static_cast<int64_t>(padded_weights[at].back().size()));
      weights[i].push_back(std::move(values));
    }
  }
  std::vector<float> input = Values(NumElements(block.inputs[0]), 3);
  for (size_t i = 0; i < odd.size(); ++i) input[11 * i + 5] = odd[i];
  const auto expected = Run(block, weights, input);
  const auto found = Run(padded.block, padded_weights, input);
  for (size_t k = 0; k < expected.size(); ++k) {
    EXPECT(found[k].size() == expected[k].size());
    EXPECT(std::equal(found[k].begin(), found[k].end(), expected[k].begin(),
                      Close));
  }
  return padded;
}

std::vector<int64_t> Channels(const Block& block) {
  const std::vector<Shape> shapes = *InferShapes(block);
  std::vector<int64_t> channels;
  for (const Shape& shape : shapes) {
    channels.push_back(shape.back());
  }
  return channels;
}

using Sizes = std::vector<int64_t>;

Operator Activate(Activation activation, int input) {
  Operator op = Join(OperatorType::kActivation, {input});
  op.activation = activation;
  return op;
}

Operator Depthwise(int input, int64_t channels, int64_t multiplier) {
  Operator op = Conv(input, channels * multiplier, 3);
  op.groups = channels;
  op.bias = true;
  return op;
}

Operator Pool(PoolKind kind, int input) {
  Operator op = Conv(input, 0, 3);
  op.type = OperatorType::kPool;
  op.pool = kind;
  return op;
}

TEST(TensorsInsideArePadded) {
  const Block block =
      MakeBlock({Conv(-1, 42, 1), Conv(0, 77, 3), Conv(1, 21, 1)}, {2});
  const PaddedBlock padded = Padded(block);
  EXPECT(Channels(padded.block) == Sizes({48, 80, 21}));
  EXPECT(padded.operators == std::vector<std::vector<int>>({{0}, {1}, {2}}));
  // Outputs are not padded, and their readers read the unpadded channels.
  const PaddedBlock read = Padded(
      MakeBlock({Conv(-1, 42, 1), Conv(0, 77, 3), Conv(1, 20, 1)}, {1, 2}));
  EXPECT(Channels(read.block) == Sizes({48, 77, 20}));
}

TEST(WhatNeedsNoPaddingStays) {
  const std::vector<Block> blocks = {
      MakeBlock({Conv(-1, 40, 1), Conv(0, 80, 3), Conv(1, 8, 1)}, {2}),
      // 3 channels are not padded: 8 channels would be more than twice as many.
      MakeBlock({Conv(-1, 3, 1), Conv(0, 8, 3)}, {1})};
  for (const Block& block : blocks) {
    EXPECT(ToJson(Padded(block).block) == ToJson(block));
  }
  const Block odd = MakeBlock({Conv(-1, 42, 1), Conv(0, 8, 3)}, {1});
  const PaddedBlock same = PadChannels(odd, *InferShapes(odd), {1});
  EXPECT(ToJson(same.block) == ToJson(odd));
  EXPECT(same.weights[0] == std::vector<WeightPadding>(1));
}

TEST(WhatWorksOnEachChannelKeepsThem) {
  Operator biased = Conv(-1, 13, 1);
  biased.bias = true;
  Operator global = Join(OperatorType::kGlobalPool, {5});
  global.pool = PoolKind::kAvg;
  global.keep_dims = true;
  Operator constant = Join(OperatorType::kBinary, {8});
  constant.function = BinaryFunction::kAdd;
  constant.operand = {1, 1, 1, 26};
  Operator one = Join(OperatorType::kBinary, {9});
  one.operand = {1, 1, 1, 1};
  Operator resize = Join(OperatorType::kResize, {10});
  resize.factors = {2, 1};
  Operator pad = Join(OperatorType::kPad, {11});
  pad.padding = {PaddingType::kExplicit, 1, 0, 0, 2};
  pad.pad_value = 0.5f;
  Operator wide = Depthwise(2, 13, 2);
  Operator residual = Depthwise(3, 26, 1);
  residual.residual = true;
  residual.inputs = {3, 3};
  Operator transposed = Conv(12, 9, 2);
  transposed.type = OperatorType::kConv2DTranspose;
  transposed.bias = true;
  Operator matmul = Conv(14, 6, 1);
  matmul.type = OperatorType::kMatMul;
  matmul.bias = true;
  const Block block = MakeBlock(
      {biased, Activate(Activation::kSigmoid, 0), Pool(PoolKind::kMax, 1), wide,
       residual, Join(OperatorType::kScale, {4}), global,
       Join(OperatorType::kBinary, {5, 6}), Pool(PoolKind::kAvg, 7), constant,
       one, resize, pad, transposed, Join(OperatorType::kGlobalPool, {13}),
       matmul, Join(OperatorType::kSoftmax, {15})},
      {16});
  const PaddedBlock padded = Padded(block);
  EXPECT(Channels(padded.block) == Sizes({16, 16, 16, 32, 32, 32, 32, 32, 32,
                                          32, 32, 32, 32, 16, 16, 8, 6, 6}));
}

TEST(SumsAndResidualsHaveTheSameChannels) {
  Operator last = Conv(2, 42, 3);
  last.residual = true;
  last.inputs = {2, 1};
  const Block block =
      MakeBlock({Conv(-1, 42, 1), Conv(0, 42, 1),
                 Join(OperatorType::kAdd, {0, 1}), last, Conv(3, 16, 1)},
                {4});
  EXPECT(Channels(Padded(block).block) == Sizes({48, 48, 48, 48, 16}));

  // The block's input is not padded, so that a sum with it reads a slice of the
  // other, padded term.
  Operator one = Conv(0, 13, 1);
  one.residual = true;
  one.inputs = {0, -1};
  Operator output = Conv(0, 13, 1);
  output.residual = true;
  output.inputs = {1, 0};
  const PaddedBlock mixed =
      Padded(MakeBlock({Conv(-1, 13, 1), one, Join(OperatorType::kAdd, {0, -1}),
                        output, Conv(2, 8, 1)},
                       {3, 4}, {1, 8, 8, 13}));
  EXPECT(Channels(mixed.block) == Sizes({16, 13, 13, 13, 13, 13, 8}));
  EXPECT(mixed.operators ==
         std::vector<std::vector<int>>({{0}, {1}, {2, 3}, {4, 5}, {6}}));
}

TEST(ConcatsArePaddedPartByPart) {
  Operator separable = Conv(2, 5, 3);
  separable.type = OperatorType::kSepConv;
  separable.multiplier = 2;
  const Block block =
      MakeBlock({Conv(-1, 42, 1), Conv(-1, 9, 3),
                 Join(OperatorType::kConcat, {0, 1, -1, 0}), separable,
                 Activate(Activation::kElu, 2), Conv(4, 8, 1),
                 Join(OperatorType::kConcat, {4, 3}), Conv(6, 8, 3)},
                {5, 7});
  EXPECT(Channels(Padded(block).block) ==
         Sizes({48, 16, 128, 8, 128, 8, 136, 8}));
}

TEST(ConcatsThatOthersReadAreNot) {
  // The parts of a concat are not padded if the concat is an output, or if a
  // sum or a softmax reads it.
  const Operator concat = Join(OperatorType::kConcat, {0, 1});
  const std::vector<Operator> parts = {Conv(-1, 42, 1), Conv(-1, 9, 3), concat};
  std::vector<Block> blocks(3, MakeBlock(parts, {2}));
  blocks[1].operators.push_back(Join(OperatorType::kAdd, {2, 2}));
  blocks[2].operators.push_back(Join(OperatorType::kSoftmax, {2}));
  for (int i : {1, 2}) blocks[i].outputs = {3};
  for (const Block& block : blocks) {
    EXPECT(ToJson(Padded(block).block) == ToJson(block));
  }
}

TEST(WhatNeedsItsChannelsReadsASlice) {
  Operator normalize = Join(OperatorType::kNormalize, {0});
  Operator lrn = Join(OperatorType::kLrn, {0});
  lrn.depth_radius = 2;
  Operator shuffle = Join(OperatorType::kChannelShuffle, {0});
  shuffle.groups = 2;
  Operator reduce = Join(OperatorType::kReduce, {0});
  Operator grouped = Conv(0, 14, 3);
  grouped.groups = 7;
  Operator channels = Join(OperatorType::kPad, {0});
  channels.channel_padding = {1, 3};
  for (const Operator& op : {normalize, lrn, shuffle, reduce, grouped, channels,
                             Join(OperatorType::kSoftmax, {0})}) {
    const PaddedBlock padded =
        Padded(MakeBlock({Conv(-1, 14, 1), op, Conv(0, 8, 1)}, {1, 2}));
    EXPECT(padded.operators ==
           std::vector<std::vector<int>>({{0}, {1, 2}, {3}}));
    EXPECT(padded.block.operators[0].filters == 16);
    EXPECT(padded.block.operators[1].type == OperatorType::kSlice);
    EXPECT(padded.block.operators[1].size == 14);
  }
}

TEST(MergedConvolutionsArePaddedBetweenTheirCuts) {
  const Block block = MakeBlock({Conv(-1, 42, 1), Conv(-1, 9, 3),
                                 Conv(-1, 13, 3), Conv(0, 8, 1), Conv(1, 8, 1)},
                                {2, 3, 4});
  Schedule schedule;
  schedule.stages = {{Strategy::kMerge, {{0, 1, 2}}},
                     {Strategy::kConcurrent, {{3}, {4}}}};
  const Lowered lowered = *LowerMerges(block, schedule);
  const PaddedBlock padded = Padded(lowered.block);
  EXPECT(Channels(padded.block) == Sizes({80, 48, 16, 13, 8, 8}));
  EXPECT(padded.block.operators[2].offset == 48);
  EXPECT(padded.block.operators[3].offset == 64);
  // LowerAndPad gives the same block as LowerMerges and PadChannels in turn.
  const DeviceSchedule on_device = *LowerAndPad(block, schedule, {8});
  EXPECT(on_device.lowered.origin == lowered.origin);
  EXPECT(Channels(on_device.padded.block) == Channels(padded.block));
  const std::vector<Stage>& stages = on_device.schedule.stages;
  EXPECT(stages.size() == 2);
  EXPECT(stages[0].groups == Groups({{0, 1, 2, 3}}));
  EXPECT(stages[1].groups == Groups({{4}, {5}}));
  EXPECT(!LowerAndPad(block, {}, {8}).ok());  // an empty schedule is invalid
}

TEST(SlicesThatOverlapAreOfTheChannelsThemselves) {
  const Block block =
      MakeBlock({Conv(-1, 42, 1), Slice(0, 0, 30), Slice(0, 20, 22),
                 Slice(0, 0, 42), Conv(1, 8, 1), Conv(2, 8, 1), Conv(3, 8, 1)},
                {4, 5, 6});
  const PaddedBlock padded = Padded(block);
  EXPECT(Channels(padded.block) == Sizes({48, 30, 22, 48, 8, 8, 8}));
  EXPECT(padded.block.operators[2].offset == 20);
  // The softmax reads the whole tensor, so no channels are added between the
  // slices.
  const PaddedBlock both = Padded(MakeBlock(
      {Conv(-1, 42, 1), Slice(0, 0, 30), Slice(0, 30, 12),
       Join(OperatorType::kSoftmax, {0}), Conv(1, 8, 1), Conv(2, 8, 1)},
      {3, 4, 5}));
  EXPECT(Channels(both.block) == Sizes({48, 30, 12, 42, 42, 8, 8}));
}

TEST(InfinitiesAndNaNDoNotSpread) {
  // If weights of added channels were 0, an infinity would turn all channels
  // into NaN. The block contains a relu, which turns negative infinities into
  // zeros.
  const Block block = MakeBlock(
      {Conv(-1, 13, 1), Activate(Activation::kRelu, 0), Conv(1, 13, 1),
       Activate(Activation::kRelu6, 2), Conv(3, 13, 3)},
      {1, 3, 4}, {1, 8, 8, 1});
  Padded(block, {kInfinity, -kInfinity, kInfinity});
  Padded(block, {std::numeric_limits<float>::quiet_NaN()});
}

TEST(WeightsOfCopiesAddUp) {
  // Pads 3 input channels to 5 and 2 output channels to 3.
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const WeightPadding padding = {{{3, 5}}, {{2, 3}}};
  EXPECT(PaddedShape({1, 1, 3, 2}, padding) == Shape({1, 1, 5, 3}));
  EXPECT(PadWeight(weight.data(), {1, 1, 3, 2}, padding) ==
         std::vector<float>({0.5, 1, 0.5, 1.5, 2, 1.5, 5, 6, 5,  //
                             0.5, 1, 0.5, 1.5, 2, 1.5}));
  EXPECT(PadWeight(weight.data(), {6}, {}) == weight);
}

TEST(StagesHaveTheSlicesInTheirGroups) {
  const Block block = MakeBlock(
      {Conv(-1, 14, 1), Join(OperatorType::kSoftmax, {0}), Conv(0, 8, 1)},
      {1, 2});
  const PaddedBlock padded = PadChannels(block, *InferShapes(block), {8});
  const std::vector<Stage> stages = padded.Translate(
      {{Strategy::kConcurrent, {{0}}}, {Strategy::kConcurrent, {{2}, {1}}}});
  EXPECT(stages[0].groups == std::vector<std::vector<int>>({{0}}));
  EXPECT(stages[1].groups == std::vector<std::vector<int>>({{3}, {1, 2}}));
}

TEST(BordersArePaddedWhereAPartIsMeasured) {
  const Block block =
      MakeBlock({Conv(-1, 77, 1), Pool(PoolKind::kMax, 0)}, {1}, {1, 8, 8, 42});
  const PaddedBlock padded =
      PadChannels(block, *InferShapes(block), {8, /*borders=*/true});
  EXPECT(padded.block.inputs[0] == Shape({1, 8, 8, 48}));
  EXPECT(Channels(padded.block) == Sizes({80, 80}));
}

TEST(WhatWouldBeTooLargeStays) {
  // Finds the largest number of images for which the block is within the
  // limits.
  Block block =
      MakeBlock({Conv(-1, 9, 1), Conv(0, 8, 1)}, {1}, {0, 1024, 1024, 8});
  for (int64_t images = int64_t{1} << 40; images > 0; images /= 2) {
    block.inputs[0][0] += images;
    if (!InferShapes(block).ok()) block.inputs[0][0] -= images;
  }
  EXPECT(block.inputs[0][0] > 0);
  const PaddedBlock padded = PadChannels(block, *InferShapes(block), {8});
  EXPECT(ToJson(padded.block) == ToJson(block));
}

}  // namespace
}  // namespace ios

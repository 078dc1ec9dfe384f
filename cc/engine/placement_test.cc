// Tests which tensors have their own memory: concats that need not copy, slices
// that are views, and operators that their readers absorb.
#include "cc/engine/placement.h"

#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::AddsPieces;
using testing::AddsTerms;
using testing::Conv;
using testing::Join;
using testing::MakeBlock;
using testing::Pitched;
using testing::Slice;

Placement Place(const Block& block, const DeviceTraits& device = Pitched()) {
  return PlaceTensors(block, *InferShapes(block), device);
}

// Returns a block with two convolutions of 32 and 16 channels (0 and 1), their
// concat (2), and `readers`.
Block Joined(std::vector<int> outputs, std::vector<Operator> readers) {
  std::vector<Operator> operators = {Conv(-1, 32, 1), Conv(-1, 16, 3),
                                     Join(OperatorType::kConcat, {0, 1})};
  operators.insert(operators.end(), readers.begin(), readers.end());
  return MakeBlock(operators, std::move(outputs));
}

TEST(JoinsAreMadeInPlace) {
  const Placement placement = Place(Joined({2}, {}));
  EXPECT(placement.host == (std::vector<int>{2, 2, -1}));
  EXPECT(placement.offset == (std::vector<int64_t>{0, 32, 0}));
  EXPECT(placement.absorbed == std::vector<bool>(3, false));
}

TEST(JoinsCopyWhatMustLieElsewhere) {
  // An output of the block (0) does not lie in the concat, because it is dense
  // and in the caller's memory.
  EXPECT(Place(Joined({0, 2}, {})).host == (std::vector<int>{-1, 2, -1}));
  // An input of the block does not lie in the concat either.
  const Block input =
      MakeBlock({Conv(-1, 16, 1), Join(OperatorType::kConcat, {-1, 0})}, {1});
  EXPECT(Place(input).host == (std::vector<int>{1, -1}));
  // A tensor that a concat reads twice keeps its own memory.
  const Block twice =
      MakeBlock({Conv(-1, 16, 1), Join(OperatorType::kConcat, {0, 0})}, {1});
  EXPECT(Place(twice).host == (std::vector<int>{-1, -1}));
  // A tensor that two concats read lies in the first one.
  const Block two = Joined({2, 3}, {Join(OperatorType::kConcat, {1, 0})});
  EXPECT(Place(two).host == (std::vector<int>{2, 2, -1, -1}));
}

TEST(JoinsCopyWhatOthersReadDense) {
  DeviceTraits device;
  // If the inputs already lie in the concat's output, the concat itself reads
  // nothing.
  EXPECT(Place(Joined({2}, {}), device).host == (std::vector<int>{2, 2, -1}));
  const Block read = Joined({2, 3}, {Conv(0, 16, 1)});
  EXPECT(Place(read, device).host == (std::vector<int>{-1, 2, -1, -1}));
  EXPECT(Place(read).host == (std::vector<int>{2, 2, -1, -1}));
}

TEST(JoinsCopyWhatIsNotAligned) {
  // 20 and 12 channels of 4 bytes each: the second input begins at byte 80,
  // which is not a multiple of 64, so it is copied.
  const Block block = MakeBlock(
      {Conv(-1, 20, 1), Conv(-1, 12, 1), Join(OperatorType::kConcat, {0, 1})},
      {2});
  DeviceTraits device = Pitched();
  EXPECT(Place(block, device).host == (std::vector<int>{2, 2, -1}));
  device.slice_bytes = 64;
  EXPECT(Place(block, device).host == (std::vector<int>{2, -1, -1}));
  // The second pixel begins after 32 channels, at byte 128, which is not a
  // multiple of 256.
  device.slice_bytes = 256;
  EXPECT(Place(block, device).host == (std::vector<int>{-1, -1, -1}));
}

TEST(SlicesAreViews) {
  const auto reads = [](std::vector<Operator> readers,
                        std::vector<int> outputs) {
    std::vector<Operator> operators = {Conv(-1, 32, 1), Slice(0, 8, 16)};
    operators.insert(operators.end(), readers.begin(), readers.end());
    return MakeBlock(operators, std::move(outputs));
  };
  const Block block = reads({Conv(1, 16, 3)}, {2});
  const Placement placement = Place(block);
  EXPECT(placement.host == (std::vector<int>{-1, 0, -1}));
  EXPECT(placement.offset[1] == 8);
  // A slice is copied if its reader needs a dense tensor, or if the slice is an
  // output.
  EXPECT(Place(block, DeviceTraits()).host[1] == -1);
  EXPECT(Place(reads({}, {1})).host[1] == -1);
  // A slice that a concat reads is written into the concat.
  const Block joined =
      reads({Conv(-1, 16, 1), Join(OperatorType::kConcat, {2, 1})}, {3});
  EXPECT(Place(joined).host == (std::vector<int>{-1, 3, 3, -1}));
  EXPECT(Place(joined).offset[1] == 16);
  // Slices of the block's inputs are not views.
  const Block outside = MakeBlock({Slice(-1, 0, 8), Conv(0, 16, 1)}, {1});
  EXPECT(Place(outside).host[0] == -1);
}

TEST(SourcesOfAllTheirSlicesLieInTheJoin) {
  // The concat reads the parts of a merged convolution (0) in their order in
  // that convolution, so the whole convolution lies in the concat.
  const auto cut = [](int64_t first, int64_t second) {
    return MakeBlock(
        {Conv(-1, 32, 1), Slice(0, first, 16), Slice(0, second, 16),
         Conv(-1, 16, 3), Join(OperatorType::kConcat, {3, 1, 2})},
        {4});
  };
  const Placement placement = Place(cut(0, 16));
  EXPECT(placement.host == (std::vector<int>{4, 4, 4, 4, -1}));
  EXPECT(placement.offset == (std::vector<int64_t>{16, 16, 32, 0, 0}));
  // In another order, the slices are copied into the concat.
  EXPECT(Place(cut(16, 0)).host == (std::vector<int>{-1, 4, 4, 4, -1}));
}

TEST(ConcatsAreLeftInPiecesWhereAllReadersTakeThem) {
  DeviceTraits device = Pitched();
  device.absorbs = AddsPieces;
  const Block block =
      Joined({4}, {Conv(-1, 48, 1), Join(OperatorType::kAdd, {2, 3})});
  const Placement placement = Place(block, device);
  EXPECT(placement.absorbed ==
         (std::vector<bool>{false, false, true, false, false}));
  // The inputs of the absorbed concat have their own memory.
  EXPECT(placement.host == std::vector<int>(5, -1));
  // A concat is not absorbed if a convolution reads it, or if it is an output
  // of the block.
  EXPECT(!Place(Joined({3}, {Conv(2, 16, 1)}), device).absorbed[2]);
  Block output = block;
  output.outputs = {2, 4};
  EXPECT(!Place(output, device).absorbed[2]);
  EXPECT(!Place(block).absorbed[2]);
}

TEST(SumsAreLeftInTermsForOneReader) {
  DeviceTraits device = Pitched();
  device.absorbs = AddsTerms;
  Operator sepconv = Conv(1, 16, 3);
  sepconv.type = OperatorType::kSepConv;
  const Block block = MakeBlock(
      {Conv(-1, 16, 1), Join(OperatorType::kAdd, {0, -1}), sepconv}, {2});
  EXPECT(Place(block, device).absorbed ==
         (std::vector<bool>{false, true, false}));
  EXPECT(!Place(block).absorbed[1]);
  // A sum with two readers is not absorbed, because both would compute it.
  Block twice = block;
  twice.operators.push_back(sepconv);
  twice.outputs = {2, 3};
  EXPECT(!Place(twice, device).absorbed[1]);
  // No reader absorbs a sum that has an activation.
  Block activated = block;
  activated.operators[1].activation = Activation::kRelu;
  EXPECT(!Place(activated, device).absorbed[1]);
}

TEST(ProductsAreLeftToTheirReader) {
  DeviceTraits device = Pitched();
  device.absorbs = [](const Operator&, const Operator& reader,
                      const Shape& between, const Shape& output) {
    return reader.kernel[0] == 3 && between.back() == 32 && output.back() == 8;
  };
  const auto block = [](const Operator& first, int64_t filters) {
    return MakeBlock({first, Conv(0, filters, 3)}, {1});
  };
  EXPECT(Place(block(Conv(-1, 32, 1), 8), device).absorbed[0]);
  EXPECT(!Place(block(Conv(-1, 32, 1), 8)).absorbed[0]);
  // Not absorbed: a 1x1 convolution whose reader has an output of a shape that
  // the device refuses, and a convolution with a larger window.
  EXPECT(!Place(block(Conv(-1, 32, 1), 16), device).absorbed[0]);
  EXPECT(!Place(block(Conv(-1, 32, 3), 8), device).absorbed[0]);
}

}  // namespace
}  // namespace ios

// Tests blocks: hashes, JSON, shapes, and illegal blocks.
#include "cc/core/ir/block.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/ir/data_type.h"
#include "cc/core/sha256.h"
#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::Conv;
using testing::Join;
using testing::MakeBlock;

// The examples are from FIPS 180-4, the standard that defines SHA-256.
TEST(Sha256OfTheStandardsExamples) {
  EXPECT(Sha256Hex("abc") ==
         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT(Sha256Hex("") ==
         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT(
      Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT(Sha256Hex(std::string(1000000, 'a')) ==
         "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(BatchSizeIgnoresInputsThatBroadcast) {
  EXPECT(BatchSize({{4, 2}, {1, 2}}) == 4);
  EXPECT(BatchSize({{1, 2}, {4, 2}}) == 4);
  EXPECT(BatchSize({{0, 2}, {1, 2}}) == 0);
  EXPECT(BatchSize({{1, 2}, {0, 2}}) == 0);
  EXPECT(BatchSize(std::vector<Shape>{}) == 1);
}

TEST(JsonGivesTheBlockBack) {
  Block block = MakeBlock(
      {Conv(-1, 8, 3), Conv(0, 4, 1), Join(OperatorType::kConcat, {0, 1})},
      {2});
  block.operators[0].bias = true;
  block.operators[0].activation = Activation::kHardSwish;
  block.operators[0].padding = {PaddingType::kExplicit, 1, 2, 0, 3};
  const std::string json = ToJson(block);
  const StatusOr<Block> read = BlockFromJson(json);
  EXPECT(read.ok() && ToJson(*read) == json);
  EXPECT(read->operators[0].padding.right == 3);
}

TEST(SignatureIsOfContentsNotOfNames) {
  Block a = MakeBlock({Conv(-1, 8, 3)}, {0});
  Block b = a;
  b.name = "other";
  b.operators[0].name = "other";
  EXPECT(Signature(a).size() == 64 && Signature(a) == Signature(b));
  b.operators[0].kernel = {3, 1};
  EXPECT(Signature(a) != Signature(b));
  b = a;
  b.dtype = DataType::kFloat16;
  EXPECT(Signature(a) != Signature(b));
}

TEST(TheNumberOfCallersIsPartOfTheBlockUnlessItIsOne) {
  const Block one = MakeBlock({Conv(-1, 8, 3), Conv(0, 4, 1)}, {1});
  EXPECT(ToJson(one).find("callers") == std::string::npos);
  Block four = one;
  four.callers = 4;
  EXPECT(Signature(four) != Signature(one));
  const StatusOr<Block> read = BlockFromJson(ToJson(four));
  EXPECT(read.ok() && read->callers == 4);
  const StatusOr<std::vector<Shape>> shapes = InferShapes(four);
  EXPECT(shapes.ok() && TakePart(four, *shapes, {1}).block.callers == 4);
  four.callers = 0;
  EXPECT_ERROR(Validate(four), "scheduled for 0 callers");
}

TEST(InputsAndOutputsMayHaveOtherDataTypes) {
  Block block = MakeBlock({Conv(-1, 8, 3), Conv(0, 4, 1), Conv(1, 4, 1)}, {2});
  block.dtype = DataType::kBFloat16;
  const std::string simple = ToJson(block);
  EXPECT(simple.find("_dtypes") == std::string::npos);
  block.input_dtypes = {DataType::kBFloat16};
  EXPECT(ToJson(block) == simple);
  block.input_dtypes = block.output_dtypes = {DataType::kFloat32};
  EXPECT(Signature(block) != Sha256Hex(simple));
  const StatusOr<Block> read = BlockFromJson(ToJson(block));
  EXPECT(read.ok() && read->input_dtypes == block.input_dtypes);
  EXPECT(read->output_dtypes == block.output_dtypes);
  EXPECT(DtypeOf(block, -1) == DataType::kFloat32);
  EXPECT(DtypeOf(block, 1) == DataType::kBFloat16);
  EXPECT(DtypeOf(block, 2) == DataType::kFloat32);
  // A part has the types that its tensors have in the whole block.
  const StatusOr<std::vector<Shape>> shapes = InferShapes(block);
  EXPECT(shapes.ok());
  const Block first = TakePart(block, *shapes, {0}).block;
  EXPECT(InputDtype(first, 0) == DataType::kFloat32);
  EXPECT(OutputDtype(first, 0) == DataType::kBFloat16);
  const Block middle = TakePart(block, *shapes, {1}).block;
  EXPECT(middle.input_dtypes.empty() && middle.output_dtypes.empty());
  block.output_dtypes.push_back(DataType::kFloat32);
  EXPECT_ERROR(Validate(block), "one data type for each input");
}

TEST(ShapesFollowTensorFlowsRules) {
  Operator same = Conv(-1, 8, 3), valid = Conv(-1, 8, 3);
  same.strides = valid.strides = {2, 2};
  valid.padding.type = PaddingType::kValid;
  const Block block = MakeBlock({same, valid}, {0, 1}, {2, 35, 36, 4});
  const StatusOr<std::vector<Shape>> shapes = InferShapes(block);
  EXPECT(shapes.ok());
  EXPECT((*shapes)[0] == Shape{2, 18, 18, 8});  // ceil(n / 2)
  EXPECT((*shapes)[1] == Shape{2, 17, 17, 8});  // ceil((n - 2) / 2)
  // If the number of padded cells is odd, SAME adds the extra cell after the
  // input.
  const std::array<int64_t, 4> cells = ExplicitPadding(same, block.inputs[0]);
  EXPECT(cells == std::array<int64_t, 4>{1, 1, 0, 1});
}

TEST(TransposedConvolutionsUndoTheShapesOfConvolutions) {
  Operator op = Conv(-1, 8, 3);
  op.type = OperatorType::kConv2DTranspose;
  op.strides = {2, 2};
  const auto shape_of = [&](const Shape& input) {
    const StatusOr<std::vector<Shape>> shapes =
        InferShapes(MakeBlock({op}, {0}, input));
    return shapes.ok() ? (*shapes)[0] : Shape();
  };
  const Shape input = {2, 5, 6, 4};
  EXPECT((shape_of(input) == Shape{2, 10, 12, 8}));
  // The forward convolution with SAME adds one cell after its input. The
  // transposed convolution cuts this cell off its output.
  EXPECT((TransposedPadding(op, input, {2, 10, 12, 8}) ==
          std::array<int64_t, 4>{0, 1, 0, 1}));
  op.padding.type = PaddingType::kValid;
  EXPECT((shape_of(input) == Shape{2, 11, 13, 8}));
  op.padding = {PaddingType::kExplicit, 1, -1, 0, 2};
  EXPECT((shape_of(input) == Shape{2, 11, 11, 8}));
  op.padding.bottom = -2;  // as much as a stride
  EXPECT(!Validate(MakeBlock({op}, {0}, input)).ok());
  // With `size_from_last_input`, a SAME convolution must map the size of the
  // last input to that of the first. A height of 9 or 10 gives 5, a height of
  // 11 does not.
  op.padding = Padding();
  op.padding.type = PaddingType::kSame;
  op.size_from_last_input = true;
  op.inputs = {-1, -2};
  Block block = MakeBlock({op}, {0}, input);
  for (int64_t height : {9, 10, 11}) {
    block.inputs = {input, {2, height, 12, 3}};
    EXPECT(Validate(block).ok() == (height < 11));
  }
}

TEST(AttributesOfSizesAndBordersGoThroughJson) {
  Operator resize = Join(OperatorType::kResize, {-1, -2});
  resize.interpolation = Interpolation::kBilinear;
  resize.coordinates = Coordinates::kAlignCorners;
  resize.factors = {2, 3};
  resize.size_from_last_input = true;
  Operator pad = Join(OperatorType::kPad, {0});
  pad.padding = {PaddingType::kExplicit, 1, 2, -1, 0};
  pad.pad_value = 0.1f;
  pad.channel_padding = {2, 0};
  Operator lrn = Join(OperatorType::kLrn, {1});
  lrn.depth_radius = 2;
  lrn.normalization = {1.0f, 1e-4f, 0.75f};
  Operator fixed = Join(OperatorType::kResize, {2});
  fixed.output_size = {7, 9};
  Block block = MakeBlock({resize, pad, lrn, fixed}, {3});
  block.inputs.push_back({1, 5, 3, 2});
  const StatusOr<Block> read = BlockFromJson(ToJson(block));
  EXPECT(read.ok());
  EXPECT(ToJson(*read) == ToJson(block));
  EXPECT(read->operators[2].normalization == lrn.normalization);
  EXPECT(read->operators[1].pad_value == 0.1f);
  const StatusOr<std::vector<Shape>> shapes = InferShapes(*read);
  EXPECT((*shapes)[0] == (Shape{1, 10, 9, 16}));
  EXPECT((*shapes)[1] == (Shape{1, 13, 8, 18}));
  EXPECT((*shapes)[3] == (Shape{1, 7, 9, 18}));
}

TEST(MirroredImagesAreAsLargeAsTheirPadding) {
  Operator pad = Join(OperatorType::kPad, {-1});
  pad.padding = {PaddingType::kExplicit, 2, 0, 0, 0};
  const auto validate = [&](Shape input) {
    return Validate(MakeBlock({pad}, {0}, std::move(input)));
  };
  pad.pad_mode = PadMode::kReflect;
  EXPECT(validate({1, 3, 2, 3}).ok());
  EXPECT_ERROR(validate({1, 2, 2, 3}),
               "padding [2,0,0,0] must be smaller than the image in tensor "
               "[1,2,2,3], because pad_mode is reflect");
  EXPECT_ERROR(validate({0, 3, 2, 3}),
               "tensor [0,3,2,3] must have at least one image");
  pad.pad_mode = PadMode::kSymmetric;
  EXPECT(validate({0, 2, 2, 3}).ok());
  EXPECT_ERROR(validate({1, 1, 2, 3}),
               "padding [2,0,0,0] must not be larger than the image in tensor "
               "[1,1,2,3], because pad_mode is symmetric");
}

TEST(ResizedImagesHavePixels) {
  Operator resize = Join(OperatorType::kResize, {-1});
  EXPECT_ERROR(Validate(MakeBlock({resize}, {0}, {1, 0, 8, 3})),
               "tensor [1,0,8,3] must have at least one pixel per image");
  resize.size_from_last_input = true;
  resize.inputs = {-1, -2};
  Block block = MakeBlock({resize}, {0});
  block.inputs.push_back({1, 5, 0, 2});
  EXPECT_ERROR(Validate(block), "the output image has no pixels: [1,5,0,16]");
}

TEST(IllegalBlocksAreErrors) {
  EXPECT(Validate(MakeBlock({Conv(-1, 8, 3)}, {0})).ok());
  EXPECT(!Validate(MakeBlock({Conv(-2, 8, 3)}, {0})).ok());
  EXPECT(!Validate(MakeBlock({Conv(0, 8, 3)}, {0})).ok());  // reads itself
  EXPECT(!Validate(MakeBlock({Conv(-1, 8, 3)}, {1})).ok());
  Operator conv = Conv(-1, 0, 3);
  EXPECT_ERROR(Validate(MakeBlock({conv}, {0})),
               "filters must be positive, not 0");
  conv.filters = 7;
  conv.groups = 3;
  EXPECT_ERROR(Validate(MakeBlock({conv}, {0})),
               "the number of input channels, 16, must be a multiple of "
               "groups=3");
  conv.groups = 4;
  EXPECT_ERROR(Validate(MakeBlock({conv}, {0})),
               "the number of filters, 7, must be a multiple of groups=4");
  const Block unequal = MakeBlock(
      {Conv(-1, 8, 3), Conv(-1, 4, 3), Join(OperatorType::kAdd, {0, 1})}, {2});
  EXPECT(!Validate(unequal).ok());
  for (const char* text : {"", "{", "[]", "{\"version\": 1}", "null"}) {
    EXPECT(!BlockFromJson(text).ok());
  }
}

TEST(NumbersAreSmallEnoughToComputeWith) {
  for (int64_t number : {INT64_MAX, INT64_MIN, int64_t{1} << 40, int64_t{-1}}) {
    std::vector<Operator> operators;
    for (int i = 0; i < 7; ++i) operators.push_back(Conv(-1, 8, 3));
    operators[0].strides = {number, number};
    operators[1].kernel = {number, number};
    operators[2].dilations = {number, number};
    operators[3].padding = {PaddingType::kExplicit, number, number, number,
                            number};
    operators[4].filters = number;
    operators[5].groups = number;
    operators[6].type = OperatorType::kSlice;
    operators[6].offset = operators[6].size = number;
    for (const Operator& op : operators) {
      EXPECT(!Validate(MakeBlock({op}, {0})).ok());
    }
    const Block large =
        MakeBlock({Conv(-1, 8, 3)}, {0}, {1, number, number, 4});
    EXPECT(!Validate(large).ok());
  }
  // The product of the other dimensions must not overflow either if a tensor is
  // empty.
  for (int64_t size : {1 << 15, 1 << 30}) {
    const Block empty = MakeBlock({Conv(-1, 8, 3)}, {0}, {0, size, size, 4});
    EXPECT(Validate(empty).ok() == (size < 1 << 30));
  }
}

TEST(IndicesAreNotCutOff) {
  const std::string good = ToJson(MakeBlock({Conv(-1, 8, 3)}, {0}));
  EXPECT(BlockFromJson(good).ok());
  for (const char* index :
       {"4294967295", "18446744073709551615", "-4294967297"}) {
    std::string bad = good;
    const size_t at = bad.find("[-1]");
    bad.replace(at, 4, "[" + std::string(index) + "]");
    EXPECT(!BlockFromJson(bad).ok());
  }
}

TEST(DeepDocumentsAreRefused) {
  for (int depth : {40, 1000000}) {
    const std::string nested =
        std::string(depth, '[') + std::string(depth, ']');
    EXPECT_ERROR(BlockFromJson("{\"version\":" + nested + "}").status(),
                 "nested too deep");
  }
  EXPECT_ERROR(BlockFromJson("{\"version\":[[1]]}").status(), "version none");
}

TEST(ConversionRoundsToNearestEven) {
  // 2049 and 2051 lie halfway between the float16 values 2048, 2050 and 2052.
  const std::vector<float> values = {1.0f,    -2.0f,   65504.0f,     65520.0f,
                                     2049.0f, 2051.0f, 5.9604645e-8f};
  const std::vector<uint16_t> half = {0x3C00, 0xC000, 0x7BFF, 0x7C00,
                                      0x6800, 0x6802, 0x0001};
  std::vector<uint16_t> found(values.size());
  ConvertFromFloat(values.data(), values.size(), DataType::kFloat16,
                   found.data());
  EXPECT(found == half);
  // 1 + 2^-8 is halfway between 0x3F80 and 0x3F81. 1 + 3 * 2^-8 is halfway
  // between 0x3F81 and 0x3F82.
  const std::vector<float> near_one = {1.0f, 1.00390625f, 1.01171875f};
  found.resize(3);
  ConvertFromFloat(near_one.data(), 3, DataType::kBFloat16, found.data());
  EXPECT(found == std::vector<uint16_t>{0x3F80, 0x3F80, 0x3F82});
}

}  // namespace
}  // namespace ios

// Compares the depthwise convolution of the CPU with its definition.
#include "cc/engine/cpu/kernels/depthwise.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/cc/testing.h"

namespace ios::cpu {
namespace {

struct Case {
  Shape input, output;
  std::array<int64_t, 2> kernel, strides, dilations;
  int64_t top, left;
  bool relu = false;
  int terms = 1;
  int64_t gap = 0;  // between the pixels of the first term
};

class Random {
 public:
  std::vector<float> Floats(int64_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = distribution_(generator_);
    return values;
  }

 private:
  std::mt19937 generator_{17};
  std::uniform_real_distribution<float> distribution_{-1, 1};
};

// Computes the convolution in double precision, window by window.
std::vector<double> Definition(const Case& c, const std::vector<double>& x,
                               const std::vector<float>& filter) {
  const int64_t channels = c.input[3];
  std::vector<double> y;
  for (int64_t n = 0; n < c.output[0]; ++n) {
    for (int64_t h = 0; h < c.output[1]; ++h) {
      for (int64_t w = 0; w < c.output[2]; ++w) {
        for (int64_t k = 0; k < channels; ++k) {
          double sum = 0;
          for (int64_t i = 0; i < c.kernel[0]; ++i) {
            for (int64_t j = 0; j < c.kernel[1]; ++j) {
              const int64_t row = h * c.strides[0] + i * c.dilations[0] - c.top;
              const int64_t column =
                  w * c.strides[1] + j * c.dilations[1] - c.left;
              if (row < 0 || row >= c.input[1] || column < 0 ||
                  column >= c.input[2]) {
                continue;
              }
              const int64_t pixel =
                  (n * c.input[1] + row) * c.input[2] + column;
              double value = x[pixel * channels + k];
              if (c.relu) value = std::max(value, 0.0);
              sum += value * filter[(i * c.kernel[1] + j) * channels + k];
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

void Check(const Case& c) {
  Operator op;
  op.type = OperatorType::kSepConv;
  op.kernel = c.kernel;
  op.strides = c.strides;
  op.dilations = c.dilations;
  op.padding = {PaddingType::kExplicit, c.top, 0, c.left, 0};
  if (c.relu) op.pre_activation = Activation::kRelu;
  EXPECT(Depthwise<float>::Takes(op, c.input, c.output));
  const Depthwise<float> depthwise(op, c.input, c.output);
  const int64_t channels = c.input[3];
  const int64_t pixels = c.input[0] * c.input[1] * c.input[2];
  Random random;
  const std::vector<float> filter =
      random.Floats(c.kernel[0] * c.kernel[1] * channels);
  // Each term has a larger pitch than the term before it.
  std::vector<std::vector<float>> tensors;
  std::vector<Term<float>> terms;
  std::vector<double> x(pixels * channels);
  for (int t = 0; t < c.terms; ++t) {
    const int64_t pitch = channels + c.gap + 3 * t;
    tensors.push_back(random.Floats(pixels * pitch));
    terms.push_back({tensors.back().data(), pitch});
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t k = 0; k < channels; ++k) {
        x[p * channels + k] += tensors.back()[p * pitch + k];
      }
    }
  }
  const std::vector<double> wanted = Definition(c, x, filter);
  EXPECT(depthwise.rows() * depthwise.row_floats() ==
         static_cast<int64_t>(wanted.size()));
  // All rows are computed in one call, as by one thread, and then in several
  // calls, as by several threads. The last rows come first, and later calls
  // must not change them.
  for (const int64_t share : {depthwise.rows(), int64_t{1}, int64_t{3}}) {
    std::vector<float> y(wanted.size(), 1e9f);
    std::vector<float> scratch(depthwise.scratch_floats({terms, nullptr}));
    for (int64_t row = (depthwise.rows() - 1) / share * share; row >= 0;
         row -= share) {
      Depthwise<float>::Arguments arguments;
      arguments.filter = filter.data();
      arguments.output_pitch = channels;
      arguments.output = y.data() + row * depthwise.row_floats();
      depthwise.Run({terms, nullptr}, arguments,
                    {row, std::min(row + share, depthwise.rows())},
                    scratch.data());
    }
    double largest = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      largest = std::max(largest, std::abs(y[i] - wanted[i]));
    }
    EXPECT(largest < 1e-5);
  }
}

TEST(ChannelsThatFillVectorsAndDoNot) {
  for (const int64_t channels : {1, 3, 7, 8, 9, 11, 15, 16, 17, 40}) {
    Check({{1, 7, 9, channels},
           {1, 7, 9, channels},
           {3, 3},
           {1, 1},
           {1, 1},
           1,
           1});
  }
}

TEST(WindowsStridesAndDilations) {
  Check({{2, 9, 8, 20}, {2, 5, 4, 20}, {5, 5}, {2, 2}, {1, 1}, 2, 1});
  Check({{1, 9, 8, 20}, {1, 3, 8, 20}, {3, 1}, {3, 1}, {1, 1}, 0, 0});
  Check({{1, 9, 8, 20}, {1, 9, 8, 20}, {3, 3}, {1, 1}, {2, 3}, 2, 3});
  Check({{3, 1, 30, 5}, {3, 1, 30, 5}, {1, 7}, {1, 1}, {1, 1}, 0, 3});
}

TEST(EveryNumberOfColumns) {
  for (const int64_t width : {3, 5, 7}) {
    for (const int64_t stride : {1, 2}) {
      for (int64_t columns = 1; columns < 19; ++columns) {
        const int64_t before = width / 2;
        for (const int64_t channels : {5, 11, 24}) {
          Check({{1, 8, (columns - 1) * stride + 1, channels},
                 {1, 8 / stride, columns, channels},
                 {3, width},
                 {stride, stride},
                 {1, 1},
                 stride == 1,
                 before});
        }
      }
    }
  }
}

TEST(WindowsLargerThanTheImage) {
  Check({{1, 2, 3, 18}, {1, 2, 3, 18}, {7, 7}, {1, 1}, {1, 1}, 3, 3});
  Check({{1, 1, 1, 4}, {1, 1, 1, 4}, {5, 5}, {1, 1}, {1, 1}, 2, 2});
}

TEST(WindowsThatLieInThePadding) {
  for (const int64_t left : {2, 3, 7}) {
    Check({{1, 4, 5, 18}, {1, 4, 14, 18}, {3, 3}, {1, 1}, {1, 1}, 1, left});
  }
}

TEST(PixelsThatAreNotAdjacent) {
  // The pixels of the second image are 1 KiB apart, and too many of them share
  // a set of the L1 cache. So some instruction sets do not read its rows
  // directly.
  for (const auto& [width, channels, gap] :
       {std::array<int64_t, 3>{9, 24, 5}, {40, 250, 6}}) {
    Check({{2, 6, width, channels},
           {2, 6, width, channels},
           {3, 3},
           {1, 1},
           {1, 1},
           1,
           1,
           /*relu=*/false,
           /*terms=*/1,
           gap});
  }
}

TEST(LargeImages) {
  // The image is computed in tiles. Neither its rows nor its columns are
  // multiples of a tile, and the last vectors of channels overlap.
  for (const int64_t stride : {1, 2}) {
    Check({{1, 41, 53, 120},
           {1, 40 / stride + 1, 52 / stride + 1, 120},
           {3, 3},
           {stride, stride},
           {1, 1},
           1,
           1,
           /*relu=*/false,
           /*terms=*/1,
           /*gap=*/8});
  }
}

TEST(ReluOfTheSumOfTensors) {
  for (const int terms : {1, 2, 3, 5}) {
    for (const bool relu : {false, true}) {
      Check({{2, 6, 5, 19},
             {2, 6, 5, 19},
             {3, 3},
             {1, 1},
             {1, 1},
             1,
             1,
             relu,
             terms});
    }
  }
}

TEST(WindowsThatItDoesNotTake) {
  Operator op;
  op.type = OperatorType::kSepConv;
  op.kernel = {17, 1};
  const Shape shape = {1, 40, 8, 16};
  EXPECT(!Depthwise<float>::Takes(op, shape, shape));
  op.kernel = {3, 3};
  EXPECT(Depthwise<float>::Takes(op, shape, shape));
  op.multiplier = 2;
  EXPECT(!Depthwise<float>::Takes(op, shape, {1, 40, 8, 32}));
}

}  // namespace
}  // namespace ios::cpu

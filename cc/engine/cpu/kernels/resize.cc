#include "cc/engine/cpu/kernels/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/views.h"
#include "cc/engine/cpu/threads/lanes.h"

#ifndef IOS_TARGET
namespace ios::cpu {
namespace {

// The input cells that one output cell is computed from, in one dimension.
struct Cells {
  int64_t lower, upper;
  float weight;  // of the upper one
};

}  // namespace
}  // namespace ios::cpu
#endif

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/resize.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

// Computes a row of the output from two rows of the input. Pixels of `to` are
// `pitch` floats apart. `columns` gives offsets in floats.
void InterpolateRow(const float* top, const float* bottom, float weight,
                    const Cells* columns, int64_t width, int64_t channels,
                    float* to, int64_t pitch) {
  for (int64_t w = 0; w < width; ++w) {
    const Cells& column = columns[w];
    const float* top_left = top + column.lower;
    const float* top_right = top + column.upper;
    const float* bottom_left = bottom + column.lower;
    const float* bottom_right = bottom + column.upper;
    float* __restrict out = to + w * pitch;
    for (int64_t c = 0; c < channels; ++c) {
      const float above =
          top_left[c] + (top_right[c] - top_left[c]) * column.weight;
      const float below =
          bottom_left[c] + (bottom_right[c] - bottom_left[c]) * column.weight;
      out[c] = above + (below - above) * weight;
    }
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

// Returns the input cells of each output cell. Uses TensorFlow's arithmetic, so
// that rounding selects the same nearest cells.
std::vector<Cells> CellsOf(const Operator& op, int64_t input, int64_t output) {
  const float scale = ResizeScale(op.coordinates, input, output);
  const bool half_pixel = op.coordinates == Coordinates::kHalfPixel;
  std::vector<Cells> cells(output);
  for (int64_t i = 0; i < output; ++i) {
    const float center = half_pixel ? i + 0.5f : static_cast<float>(i);
    float at = center * scale;
    if (op.interpolation == Interpolation::kNearest) {
      at = op.coordinates == Coordinates::kAlignCorners ? std::round(at)
                                                        : std::floor(at);
      const int64_t nearest =
          std::clamp<int64_t>(static_cast<int64_t>(at), 0, input - 1);
      cells[i] = {nearest, nearest, 0.0f};
    } else {
      if (half_pixel) at -= 0.5f;
      const float floor = std::floor(at);
      cells[i] = {
          std::max<int64_t>(static_cast<int64_t>(floor), 0),
          std::min<int64_t>(static_cast<int64_t>(std::ceil(at)), input - 1),
          at - floor};
    }
  }
  return cells;
}

// Returns true if cells are copied, not interpolated. TensorFlow's CPU kernel
// copies an image whose size stays the same: each cell is its own nearest cell.
// Interpolation would make NaN of infinities.
bool Copies(const TaskSpec& spec) {
  return spec.op->interpolation == Interpolation::kNearest ||
         spec.inputs[0].shape == spec.output.shape;
}

class ResizeTask : public CpuTask {
 public:
  explicit ResizeTask(const TaskSpec& spec)
      : copies_(Copies(spec)),
        input_(spec.inputs[0]),
        output_(spec.output),
        rows_(CellsOf(*spec.op, input_.shape[1], output_.shape[1])),
        columns_(CellsOf(*spec.op, input_.shape[2], output_.shape[2])) {
    for (Cells& column : columns_) {
      column.lower *= input_.pitch;
      column.upper *= input_.pitch;
    }
  }

  void Run(const float* const* inputs, float* output,
           const LaneResources&) override {
    const int64_t height = output_.shape[1], width = output_.shape[2];
    const int64_t channels = output_.channels();
    const int64_t input_row = input_.shape[2] * input_.pitch;
    ParallelFor(output_.shape[0] * height,
                std::max<int64_t>(
                    1, kGrainFloats / std::max<int64_t>(1, width * channels)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    const Cells& cells = rows_[row % height];
                    const float* image =
                        inputs[0] + row / height * input_.shape[1] * input_row;
                    const float* top = image + cells.lower * input_row;
                    float* to = output + row * width * output_.pitch;
                    if (!copies_) {
                      IOS_DISPATCH(InterpolateRow)(
                          top, image + cells.upper * input_row, cells.weight,
                          columns_.data(), width, channels, to, output_.pitch);
                      continue;
                    }
                    for (int64_t w = 0; w < width; ++w) {
                      std::memcpy(to + w * output_.pitch,
                                  top + columns_[w].lower,
                                  channels * sizeof(float));
                    }
                  }
                });
  }

 private:
  const bool copies_;
  const TensorView input_, output_;
  const std::vector<Cells> rows_;
  std::vector<Cells> columns_;  // in floats
};

}  // namespace

std::unique_ptr<Task> MakeResizeTask(const TaskSpec& spec) {
  return std::make_unique<ResizeTask>(spec);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET

#include "cc/engine/cpu/kernels/bfloat16_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/bfloat16_block.h"
#include "cc/engine/cpu/kernels/caches.h"
#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/kernels/scratch_layout.h"

namespace ios::cpu {
namespace {

// A copied strip has at most this many bytes, so that it stays in a core's L2
// cache together with the factors of a panel.
constexpr int64_t kStripBytes = 384 << 10;

// Returns the largest even number up to kMostDepth that divides `channels`, or
// 0 if `channels` is odd.
int64_t DepthFor(int64_t channels) {
  for (int64_t depth = kMostDepth; depth > 0; depth -= 2) {
    if (channels % depth == 0) return depth;
  }
  return 0;
}

// Copies `count` cells of kChannels channels, which are `pitch` elements apart,
// and adds one zero to each.
template <int64_t kChannels>
void CopyFewChannels(const BFloat16* from, int64_t pitch, int64_t count,
                     BFloat16* to) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < kChannels; ++c) to[c] = from[c];
    to[kChannels] = BFloat16();
    from += pitch;
    to += kChannels + 1;
  }
}

}  // namespace

BFloat16Product::BFloat16Product(const Operator& op, const TensorView& input,
                                 const TensorView& output, int threads)
    : filters_(op.filters),
      kernel_(op.kernel),
      strides_(op.strides),
      dilations_(op.dilations),
      input_pitch_(input.pitch),
      output_pitch_(output.pitch),
      output_dtype_(output.dtype) {
  if (op.type == OperatorType::kMatMul) {
    kernel_ = {1, 1};
    images_ = height_ = out_height_ = 1;
    width_ = out_width_ = input.shape[0];
    channels_ = input_pitch_ = NumElements(input.shape) / input.shape[0];
    flat_ = true;
  } else {
    images_ = input.shape[0];
    height_ = input.shape[1];
    width_ = input.shape[2];
    channels_ = input.shape[3];
    out_height_ = output.shape[1];
    out_width_ = output.shape[2];
    const std::array<int64_t, 4> padding = ExplicitPadding(op, input.shape);
    top_ = padding[0];
    left_ = padding[2];
    copies_ = padding != std::array<int64_t, 4>{};
    constexpr std::array<int64_t, 2> kOne = {1, 1};
    flat_ = kernel_ == kOne && strides_ == kOne && !copies_;
    if (flat_) {
      width_ = out_width_ = images_ * height_ * width_;
      images_ = height_ = out_height_ = 1;
    }
  }
  copies_ = copies_ || strides_[0] > 1;
  ChooseDepth(copies_);
  // Without a copy, merged cells must be next to each other in the image, and
  // each row of the image must begin at a position.
  copies_ = copies_ || pixel_channels_ != channels_ ||
            (merges_columns_ && input_pitch_ != channels_) ||
            (!flat_ && width_ % strides_[1] != 0);
  position_pitch_ = strides_[1] * (copies_ ? pixel_channels_ : input_pitch_);
  const int64_t columns = copies_ ? (out_width_ - 1) * strides_[1] +
                                        (kernel_[1] - 1) * dilations_[1] + 1
                                  : width_;
  row_positions_ = CeilDiv(columns, strides_[1]);
  ChooseUnits(threads);
}

// Chooses how many channels a step has, and whether zeros are added to each
// cell. Fewer steps take less time, but a copy takes time, too.
void BFloat16Product::ChooseDepth(bool copies) {
  // A cell with few channels would fill only a part of a step.
  constexpr int64_t kFewChannels = 16;
  merges_columns_ =
      channels_ <= kFewChannels && kernel_[1] > 1 && dilations_[1] == 1;
  const int64_t cells = merges_columns_ ? kernel_[1] : 1;
  const auto steps_with = [&](int64_t channels) {
    const int64_t depth = DepthFor(cells * channels);
    return depth > 0 ? cells * channels / depth : cells * channels;
  };
  int64_t best = 0;
  for (int64_t channels = channels_; channels < channels_ + kMostDepth;
       ++channels) {
    if (DepthFor(cells * channels) == 0) continue;
    // 5 steps without a copy take less time than 4 steps with a copy.
    const bool is_better =
        best == 0 || (best == channels_ && !copies
                          ? 5 * steps_with(channels) < 4 * steps_with(best)
                          : steps_with(channels) < steps_with(best));
    if (is_better) best = channels;
  }
  pixel_channels_ = best;
  depth_ = DepthFor(run_channels());
}

int64_t BFloat16Product::panels() const { return CeilDiv(filters_, kPanel); }

// Cuts the work into units for the threads. With n strips, a thread reads one
// n-th of the image, and the factors of (n / threads) of the filters.
void BFloat16Product::ChooseUnits(int threads) {
  // A thread computes at least this many positions with each panel of factors.
  constexpr int64_t kLeastPositions = 2 * kBlockPixels;
  const int64_t positions = rows() * (flat_ ? 1 : row_positions_);
  const int64_t image =
      copies_ && !flat_ ? copied_elements(rows()) : positions * position_pitch_;
  const int64_t factors = steps() * depth_ * filters_;
  const auto least_traffic = static_cast<int64_t>(
      std::lround(std::sqrt(static_cast<double>(threads) * image * images_ /
                            std::max<int64_t>(factors, 1))));
  const int64_t all_strips = std::clamp<int64_t>(
      least_traffic, 1,
      std::clamp<int64_t>(images_ * positions / kLeastPositions, 1, threads));
  strips_ = CeilDiv(all_strips, std::max<int64_t>(images_, 1));
  const int64_t bytes = image * static_cast<int64_t>(sizeof(BFloat16));
  strips_ = std::clamp<int64_t>(CeilDiv(bytes, kStripBytes), strips_,
                                std::max<int64_t>(rows(), strips_));
  parts_ = std::clamp<int64_t>(
      CeilDiv(threads, std::max<int64_t>(images_ * strips_, 1)), 1, panels());
}

int64_t BFloat16Product::most_rows() const { return CeilDiv(rows(), strips_); }

BFloat16Product::Strip BFloat16Product::StripOf(int64_t number) const {
  const int64_t strip = number % strips_;
  return {number / strips_, strip * rows() / strips_,
          (strip + 1) * rows() / strips_};
}

int64_t BFloat16Product::positions(const Strip& strip) const {
  const int64_t count = strip.end - strip.begin;
  return flat_ ? count : (count - 1) * row_positions_ + out_width_;
}

int64_t BFloat16Product::scratch_floats() const {
  int64_t floats = kBlockPixels * kPanel;
  if (copies_) {
    const int64_t elements =
        flat_ ? most_rows() * pixel_channels_ : copied_elements(most_rows());
    floats += WholeLines(CeilDiv(elements, 2));
  }
  return floats + kApart;
}

int64_t BFloat16Product::packed_size() const {
  return panels() * steps() * depth_ * kPanel;
}

template <typename Visit>
void BFloat16Product::VisitFactors(Visit&& visit) const {
  // Visits the cells of the window in the order of the steps, and the channels
  // of each cell. The packed filter has, for each filter, the factors of two
  // channels next to each other.
  int64_t row = 0;
  for (int64_t panel = 0; panel < panels(); ++panel) {
    for (int64_t cell = 0; cell < kernel_[0] * kernel_[1]; ++cell) {
      for (int64_t channel = 0; channel < pixel_channels_; ++channel, ++row) {
        if (channel >= channels_) continue;
        const int64_t step = row / depth_, in_step = row % depth_;
        for (int64_t tile = 0; tile < kPanel / kTile; ++tile) {
          const int64_t first = panel * kPanel + tile * kTile;
          const int64_t count = std::min(kTile, filters_ - first);
          if (count <= 0) break;
          visit(((cell * channels_ + channel) * filters_) + first, count,
                step * depth_ * kPanel + tile * depth_ * kTile +
                    in_step / 2 * 2 * kTile + in_step % 2);
        }
      }
    }
  }
}

void BFloat16Product::Pack(const float* filter, BFloat16* to) const {
  std::fill_n(to, packed_size(), BFloat16());
  VisitFactors([&](int64_t from, int64_t count, int64_t packed) {
    BFloat16 narrow[kTile];
    Narrow(filter + from, count, narrow);
    for (int64_t f = 0; f < count; ++f) to[packed + 2 * f] = narrow[f];
  });
}

void BFloat16Product::Unpack(const BFloat16* from, float* filter) const {
  VisitFactors([&](int64_t to, int64_t count, int64_t packed) {
    for (int64_t f = 0; f < count; ++f) {
      Widen(from + packed + 2 * f, 1, filter + to + f);
    }
  });
}

std::vector<int64_t> BFloat16Product::Offsets(int64_t rows) const {
  std::vector<int64_t> offsets;
  const int64_t pixel = copies_ ? pixel_channels_ : input_pitch_;
  const int64_t plane =
      copies_ && !flat_ ? plane_rows(rows) * row_elements() : 0;
  for (int64_t y = 0; y < kernel_[0]; ++y) {
    const int64_t row = y * dilations_[0];
    const int64_t row_offset =
        row % strides_[0] * plane + row / strides_[0] * row_elements();
    for (int64_t x = 0; x < (merges_columns_ ? 1 : kernel_[1]); ++x) {
      for (int64_t c = 0; c < run_channels(); c += depth_) {
        offsets.push_back(row_offset + x * dilations_[1] * pixel + c);
      }
    }
  }
  return offsets;
}

// Copies the cells that a strip depends on, with padding.
void BFloat16Product::CopyStrip(const Strip& strip, const BFloat16* input,
                                BFloat16* to) const {
  const int64_t size = sizeof(BFloat16);
  // Copies `count` cells, and writes zeros after the channels of each cell.
  const auto copy_cells = [&](const BFloat16* from, int64_t count,
                              BFloat16* out) {
    if (pixel_channels_ == channels_ && input_pitch_ == channels_) {
      std::memcpy(out, from, count * channels_ * size);
      return;
    }
    // The usual numbers of channels of a network's input are copied faster.
    if (channels_ == 1 && pixel_channels_ == 2) {
      return CopyFewChannels<1>(from, input_pitch_, count, out);
    }
    if (channels_ == 3 && pixel_channels_ == 4) {
      return CopyFewChannels<3>(from, input_pitch_, count, out);
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(out, from, channels_ * size);
      std::memset(out + channels_, 0, (pixel_channels_ - channels_) * size);
      from += input_pitch_;
      out += pixel_channels_;
    }
  };
  if (flat_) {
    return copy_cells(input + strip.begin * input_pitch_,
                      strip.end - strip.begin, to);
  }
  const int64_t columns = row_positions_ * strides_[1];
  const int64_t copied = std::clamp<int64_t>(columns - left_, 0, width_);
  for (int64_t phase = 0; phase < phases(); ++phase) {
    for (int64_t row = 0; row < plane_rows(strip.end - strip.begin); ++row) {
      const int64_t y = (strip.begin + row) * strides_[0] + phase - top_;
      if (y < 0 || y >= height_) {
        std::memset(to, 0, row_elements() * size);
      } else {
        const BFloat16* const from =
            input + (strip.image * height_ + y) * width_ * input_pitch_;
        std::memset(to, 0, left_ * pixel_channels_ * size);
        BFloat16* const cells = to + left_ * pixel_channels_;
        copy_cells(from, copied, cells);
        std::memset(cells + copied * pixel_channels_, 0,
                    (columns - left_ - copied) * pixel_channels_ * size);
      }
      to += row_elements();
    }
  }
}

void BFloat16Product::FinishBlock(const Arguments& arguments,
                                  const Strip& strip, const ProductBlock& block,
                                  int64_t position, int64_t filter) const {
  const bool narrows = output_dtype_ == DataType::kBFloat16;
  const int64_t size = SizeOf(output_dtype_);
  const int64_t first_pixel =
      flat_ ? strip.begin
            : (strip.image * out_height_ + strip.begin) * out_width_;
  FinishedRows finished;
  finished.filters = block.filters;
  finished.bias = arguments.bias ? arguments.bias + filter : nullptr;
  finished.residual_pitch = arguments.residual ? arguments.residual_pitch : 0;
  // Finishes each run of neighbouring pixels in the block. The results go to
  // the output, or replace the sums if an activation is still to follow.
  const auto finish = [&](bool to_output) {
    finished.narrows = to_output && narrows;
    finished.output_pitch = to_output ? output_pitch_ : kPanel;
    int64_t row = position / row_positions_, column = position % row_positions_;
    for (int64_t i = 0; i < block.pixels; ++row, column = 0) {
      const int64_t left = block.pixels - i;
      float* const sums = block.sums + i * kPanel;
      i += std::min(left, row_positions_ - column);
      finished.count = std::min(left, out_width_ - column);
      if (finished.count <= 0) continue;
      const int64_t pixel = first_pixel + row * out_width_ + column;
      finished.sums = sums;
      finished.output = to_output ? static_cast<char*>(arguments.output) +
                                        (pixel * output_pitch_ + filter) * size
                                  : reinterpret_cast<char*>(sums);
      if (finished.residual_pitch > 0) {
        finished.residual =
            arguments.residual + pixel * finished.residual_pitch + filter;
      }
      FinishRows(finished);
    }
  };
  if (IsLimit(arguments.activation)) {
    finished.activation = arguments.activation.kind;
    return finish(/*to_output=*/true);
  }
  finish(/*to_output=*/false);
  const auto activate = narrows ? ActivateRowForBFloat16 : ActivateRow;
  activate(block.sums, block.pixels * kPanel, arguments.activation, block.sums);
  finished.bias = nullptr;
  finished.residual = nullptr;
  finished.residual_pitch = 0;
  finish(/*to_output=*/true);
}

void BFloat16Product::RunStrip(const Arguments& arguments, const Strip& strip,
                               const BFloat16* cells, int64_t first_panel,
                               int64_t last_panel, float* sums) const {
  const std::vector<int64_t> offsets = Offsets(strip.end - strip.begin);
  const int64_t all = positions(strip);
  BlockMultiplier multiplier(depth_);
  ProductBlock block;
  block.pitch = position_pitch_;
  block.offsets = offsets.data();
  block.steps = offsets.size();
  block.depth = depth_;
  block.sums = sums;
  const int64_t panels = last_panel - first_panel;
  const int64_t blocks = CeilDiv(all, kBlockPixels);
  const int64_t panel_factors = block.steps * depth_ * kPanel;
  // Blocks with the same factors follow each other, so that the factors stay in
  // the L1 cache. But if the output is larger than the input, blocks with the
  // same pixels follow each other, so that the output is written in the order
  // of its addresses. Processors write large tensors faster in this order.
  const bool output_in_order =
      filters_ > block.steps * depth_ &&
      panels * panel_factors * int64_t{sizeof(BFloat16)} <= kFactorBytes;
  // In a large network, factors come from main memory. So each block, while it
  // is computed with one panel, prefetches a part of the next panel.
  const int64_t ahead_lines =
      CeilDiv(CeilDiv(depth_ * kPanel * 2, kLineBytes), blocks);
  for (int64_t i = 0; i < panels * blocks; ++i) {
    const int64_t panel =
        first_panel + (output_in_order ? i % panels : i / blocks);
    const int64_t number = output_in_order ? i / panels : i % blocks;
    const int64_t position = number * kBlockPixels, filter = panel * kPanel;
    block.filters = std::min(kPanel, filters_ - filter);
    block.factors = arguments.filter + panel * panel_factors;
    block.pixels = std::min(kBlockPixels, all - position);
    block.cells = cells + position * position_pitch_;
    block.ahead_lines =
        output_in_order || panel + 1 == last_panel ? 0 : ahead_lines;
    block.ahead = block.factors + panel_factors +
                  number * ahead_lines * block.steps * (kLineBytes / 2);
    multiplier.Multiply(block);
    FinishBlock(arguments, strip, block, position, filter);
  }
}

void BFloat16Product::Run(const Arguments& arguments, int64_t begin,
                          int64_t end, float* scratch) const {
  float* const sums = scratch;
  auto* const copy =
      reinterpret_cast<BFloat16*>(scratch + kBlockPixels * kPanel);
  int64_t copied = -1;  // the strip in `copy`
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t number = unit / parts_, part = unit % parts_;
    const Strip strip = StripOf(number);
    if (strip.begin == strip.end) continue;
    const BFloat16* cells = copy;
    if (!copies_) {
      const int64_t first =
          flat_ ? strip.begin : (strip.image * height_ + strip.begin) * width_;
      cells = arguments.input + first * input_pitch_;
    } else if (copied != number) {
      CopyStrip(strip, arguments.input, copy);
      copied = number;
    }
    RunStrip(arguments, strip, cells, part * panels() / parts_,
             (part + 1) * panels() / parts_, sums);
  }
}

}  // namespace ios::cpu

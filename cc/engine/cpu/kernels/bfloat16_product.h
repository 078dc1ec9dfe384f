// Convolutions and matrix products of bfloat16 tensors, with bias, residual and
// activation.
//
// A convolution is computed as a product of two matrices. Each row of the first
// matrix consists of the input cells in the window of one output pixel. The
// windows overlap, so this matrix is not stored: the kernel reads the cells
// from the image. The image is copied first if it needs padding, if strides
// skip rows, or if its number of channels does not fit the processor's
// instructions.
//
// The work is cut into units. Each unit has some rows of the output (a strip)
// and a range of the filters. A unit is computed in blocks of kBlockPixels
// pixels and kPanel filters.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_PRODUCT_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_PRODUCT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/kernels/bfloat16.h"

namespace ios::cpu {

struct ProductBlock;

class BFloat16Product {
 public:
  // Plans a Conv2D without groups, or a MatMul with a dense input, for
  // `threads` threads that share the units. The views may be pitched. The
  // output is bfloat16 or float32.
  BFloat16Product(const Operator& op, const TensorView& input,
                  const TensorView& output, int threads);

  // The size of the packed filter. Pack() rounds and packs a filter in
  // TensorFlow's layout, [kh,kw,C,filters], and Unpack() does the reverse.
  int64_t packed_size() const;
  void Pack(const float* filter, BFloat16* to) const;
  void Unpack(const BFloat16* from, float* filter) const;
  // Identifies the layout of the packed filter.
  int64_t layout() const {
    return 2 * pixel_channels_ + (merges_columns_ ? 1 : 0);
  }

  int64_t units() const { return images_ * strips_ * parts_; }
  int64_t scratch_floats() const;  // of a thread

  struct Arguments {
    const BFloat16* input = nullptr;
    const BFloat16* filter = nullptr;    // packed
    const float* bias = nullptr;         // null for none
    const BFloat16* residual = nullptr;  // null for none
    int64_t residual_pitch = 0;
    Activation activation;
    void* output = nullptr;  // must not be the residual
  };

  // Computes the units `begin` to `end` (exclusive) on the calling thread.
  void Run(const Arguments& arguments, int64_t begin, int64_t end,
           float* scratch) const;

 private:
  // Some rows of one image's output or, if the product is flat, some pixels.
  struct Strip {
    int64_t image, begin, end;
  };

  void ChooseDepth(bool copies);
  void ChooseUnits(int threads);
  // Calls visit(index in the filter, number of filters, index in the packed
  // filter) for each tile of filters, for each channel of each cell. In the
  // packed filter, the factors of neighbouring filters are two elements apart.
  template <typename Visit>
  void VisitFactors(Visit&& visit) const;
  // Returns ProductBlock::offsets for a strip with `rows` rows.
  std::vector<int64_t> Offsets(int64_t rows) const;
  // The number of rows, or of pixels if flat, that strips divide.
  int64_t rows() const { return flat_ ? out_width_ : out_height_; }
  // The number of neighbouring channels in the image that the kernel reads as
  // one run: the channels of one cell, or of all cells in a row of the window.
  int64_t run_channels() const {
    return merges_columns_ ? kernel_[1] * pixel_channels_ : pixel_channels_;
  }
  int64_t steps() const {
    return kernel_[0] * (merges_columns_ ? 1 : kernel_[1]) * run_channels() /
           depth_;
  }
  int64_t panels() const;
  int64_t positions(const Strip& strip) const;
  // The functions below describe a copied strip. It has one plane for each
  // phase; a plane has every strides_[0]-th row of the image.
  int64_t phases() const { return std::min(strides_[0], window_rows()); }
  int64_t window_rows() const { return (kernel_[0] - 1) * dilations_[0] + 1; }
  int64_t row_elements() const { return row_positions_ * position_pitch_; }
  int64_t plane_rows(int64_t rows) const {
    return rows + (window_rows() - 1) / strides_[0];
  }
  int64_t copied_elements(int64_t rows) const {
    return phases() * plane_rows(rows) * row_elements();
  }
  int64_t most_rows() const;  // of a strip

  Strip StripOf(int64_t number) const;
  void CopyStrip(const Strip& strip, const BFloat16* input, BFloat16* to) const;
  // Adds the bias and the residual to the sums of a block, applies the
  // activation, and writes the output. The block's first pixel is at `position`
  // of the strip, and its first filter is `filter`.
  void FinishBlock(const Arguments& arguments, const Strip& strip,
                   const ProductBlock& block, int64_t position,
                   int64_t filter) const;
  void RunStrip(const Arguments& arguments, const Strip& strip,
                const BFloat16* cells, int64_t first_panel, int64_t last_panel,
                float* sums) const;

  int64_t images_, height_, width_, channels_;
  int64_t out_height_, out_width_, filters_;
  std::array<int64_t, 2> kernel_, strides_, dilations_;
  int64_t top_ = 0, left_ = 0;  // padding
  int64_t input_pitch_, output_pitch_;
  DataType output_dtype_;
  // Whether each output pixel depends on one input pixel, at the same position.
  // The rows of all images are then treated as one row.
  bool flat_ = false;
  bool copies_ = false;  // whether strips are copied before they are multiplied
  // The channels of a cell that is read: `channels_`, or more if the strips are
  // copied, with zeros after each cell.
  int64_t pixel_channels_ = 0;
  bool merges_columns_ = false;  // a row of the window is read as one cell
  int64_t depth_ = 0;            // channels of a step
  // The pixels of all rows of a strip are numbered by one index, the position.
  // A row has `row_positions_` positions. The first `out_width_` of them are
  // pixels of the output. `position_pitch_` is the number of elements from one
  // position to the next.
  int64_t row_positions_ = 0, position_pitch_ = 0;
  int64_t strips_ = 1;  // per image
  int64_t parts_ = 1;   // ranges of panels
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_PRODUCT_H_

#include "cc/engine/cpu/tasks/separable.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/depthwise.h"
#include "cc/engine/cpu/kernels/elementwise.h"
#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/onednn/convolution.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/pointwise.h"
#include "cc/engine/cpu/tasks/scratch.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

// Returns an image that is the sum of these terms.
template <typename T>
typename Depthwise<T>::Image ImageOf(const std::vector<TensorView>& terms,
                                     const T* const* inputs) {
  typename Depthwise<T>::Image image;
  for (size_t i = 0; i < terms.size(); ++i) {
    image.terms.push_back({inputs[i], terms[i].pitch});
  }
  return image;
}

// Returns arguments for a depthwise convolution of all channels with a dense
// output.
template <typename T>
typename Depthwise<T>::Arguments DenseArguments(const Depthwise<T>& depthwise,
                                                const float* filter) {
  typename Depthwise<T>::Arguments arguments;
  arguments.filter = filter;
  arguments.output_pitch = depthwise.channels();
  return arguments;
}

// The common base of PrimitiveSepConvTask and KernelSepConvTask. It creates the
// 1x1 convolution, and stores the tensors of the task: the terms of the input,
// the residual, and the output.
class SepConvTask : public FloatTask {
 public:
  int64_t scratch_floats() const override { return scratch_.floats(); }

 protected:
  explicit SepConvTask(const TaskSpec& spec)
      : terms_(spec.inputs.begin(),
               spec.inputs.begin() + spec.operands[0].tensors),
        residual_(spec.inputs.back(), &scratch_),
        output_(spec.output, &scratch_),
        has_residual_(spec.op->residual) {}

  static Convolution Pointwise(const TaskSpec& spec, const dnnl::engine& engine,
                               int64_t pixels) {
    const int64_t channels = spec.inputs[0].channels() * spec.op->multiplier;
    Operator op;
    op.filters = spec.op->filters;
    op.residual = spec.op->residual;
    op.activation = spec.op->activation;
    Convolution pointwise;
    pointwise.Create(engine, op, {1, pixels, 1, channels},
                     {1, pixels, 1, op.filters},
                     {AsCpu(spec.parameters[1]),
                      spec.op->bias ? AsCpu(spec.parameters[2]) : nullptr});
    return pointwise;
  }

  const float* Residual(const float* const* inputs, float* scratch) const {
    return has_residual_ ? residual_.Get(inputs[terms_.size()], scratch)
                         : nullptr;
  }

  ScratchLayout scratch_;
  const std::vector<TensorView> terms_;
  const DenseInput residual_;
  const DenseOutput output_;

 private:
  const bool has_residual_;
};

// Computes sum, Relu, depthwise and 1x1 convolution one after the other. The
// convolutions are oneDNN primitives.
class PrimitiveSepConvTask : public SepConvTask {
 public:
  PrimitiveSepConvTask(const TaskSpec& spec, const dnnl::engine& engine)
      : SepConvTask(spec), activation_(spec.op->pre_activation) {
    const Shape& in = spec.inputs[0].shape;
    Shape middle = spec.output.shape;
    middle[3] = in[3] * spec.op->multiplier;
    copies_ = activation_ != Activation::kNone || terms_.size() > 1 ||
              !terms_[0].dense();
    if (copies_) activated_ = scratch_.Take(NumElements(in));
    middle_ = scratch_.Take(NumElements(middle));
    Operator depthwise = *spec.op;
    depthwise.groups = in[3];
    depthwise.filters = middle[3];
    depthwise.residual = false;
    depthwise.activation = Activation::kNone;
    depthwise_.Create(engine, depthwise, in, middle,
                      {AsCpu(spec.parameters[0])});
    pointwise_ = Pointwise(spec, engine, spec.output.pixels());
    scratchpad_ = scratch_.Take(std::max(depthwise_.scratchpad_floats(),
                                         pointwise_.scratchpad_floats()));
  }

  void Run(const float* const* inputs, float* output,
           const LaneResources& lane) override {
    float* scratch = lane.scratch.get();
    const float* x = inputs[0];
    if (copies_) {
      const Target target = {scratch + activated_, DenseView(terms_[0].shape)};
      if (terms_.size() == 1) {
        Activate({x, terms_[0]}, activation_, target);
      } else {
        std::vector<Source> sources;
        for (size_t i = 0; i < terms_.size(); ++i) {
          sources.push_back({inputs[i], terms_[i]});
        }
        Add(sources, activation_, target);
      }
      x = scratch + activated_;
    }
    depthwise_.Run(x, nullptr, scratch + middle_, lane.stream.get(),
                   scratch + scratchpad_);
    pointwise_.Run(scratch + middle_, Residual(inputs, scratch),
                   output_.Begin(output, scratch), lane.stream.get(),
                   scratch + scratchpad_);
    output_.Finish(output, scratch, pointwise_.rest());
  }

 private:
  const Activation activation_;
  bool copies_ = false;
  Convolution depthwise_, pointwise_;
  int64_t activated_ = 0, middle_ = 0, scratchpad_ = 0;
};

// Computes sum, Relu and depthwise convolution in one pass of our own kernel,
// and the 1x1 convolution with oneDNN. If InStrips(), each thread computes both
// convolutions for a strip of rows, so that the values between the convolutions
// stay in a core's cache. Otherwise the threads share each convolution.
class KernelSepConvTask : public SepConvTask {
 public:
  KernelSepConvTask(const TaskSpec& spec, const dnnl::engine& engine)
      : SepConvTask(spec),
        depthwise_(*spec.op, spec.inputs[0].shape, spec.output.shape),
        filters_(spec.op->filters) {
    const int64_t channels = depthwise_.channels();
    const dnnl::memory::desc plain =
        PlainFilterDesc(*spec.op, /*groups=*/channels, channels, channels);
    filter_ = AsCpu(spec.parameters[0])->Packed(engine, plain, plain);
    const int64_t rows = depthwise_.rows();
    const int threads = CurrentThread().lane->size;
    strips_ = InStrips(threads) ? threads : 1;
    middle_ = scratch_.Take(rows * depthwise_.row_floats());
    scratch_.Take(kApart);
    ring_floats_ = depthwise_.scratch_floats({}) + kApart;
    rings_ = scratch_.Take(threads * ring_floats_);
    if (strips_ == 1) {
      pointwise_.push_back(
          Pointwise(spec, engine, rows * depthwise_.out_width()));
    } else {
      // Makes oneDNN plan for a single thread, because one thread calls it.
      ThreadState& thread = CurrentThread();
      Lane alone;
      alone.planning = true;
      Lane* const lane = std::exchange(thread.lane, &alone);
      for (int64_t i = 0; i < strips_; ++i) {
        const auto [begin, end] = Strip(i);
        const bool as_before = i > 0 && end - begin == Length(i - 1);
        pointwise_.push_back(
            as_before ? pointwise_.back().Clone()
                      : Pointwise(spec, engine,
                                  (end - begin) * depthwise_.out_width()));
      }
      thread.lane = lane;
    }
    for (const Convolution& pointwise : pointwise_) {
      scratchpads_.push_back(
          scratch_.Take(pointwise.scratchpad_floats() + kApart));
    }
  }

  void Run(const float* const* inputs, float* output,
           const LaneResources& lane) override {
    float* scratch = lane.scratch.get();
    const float* residual = Residual(inputs, scratch);
    const auto* filter = static_cast<float*>(filter_.get_data_handle());
    float* target = output_.Begin(output, scratch);
    const Depthwise<float>::Image image = ImageOf(terms_, inputs);
    const auto depthwise = [&](int64_t begin, int64_t end) {
      Depthwise<float>::Arguments arguments =
          DenseArguments(depthwise_, filter);
      arguments.output = scratch + middle_ + begin * depthwise_.row_floats();
      depthwise_.Run(image, arguments, {begin, end},
                     scratch + rings_ + ThreadIndex() * ring_floats_);
    };
    const Activation rest = pointwise_[0].rest();
    const auto pointwise = [&](int64_t strip, int64_t row) {
      const int64_t offset = row * depthwise_.out_width() * filters_;
      pointwise_[strip].Run(scratch + middle_ + row * depthwise_.row_floats(),
                            residual ? residual + offset : nullptr,
                            target + offset, lane.stream.get(),
                            scratch + scratchpads_[strip]);
    };
    if (strips_ == 1) {
      ParallelFor(depthwise_.rows(), 1, depthwise);
      pointwise(0, 0);
    } else {
      ParallelFor(strips_, 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const auto [begin, end] = Strip(i);
          depthwise(begin, end);
          pointwise(i, begin);
          const int64_t row_floats = depthwise_.out_width() * filters_;
          float* const strip = target + begin * row_floats;
          if (rest != Activation::kNone) {
            ActivateRow(strip, (end - begin) * row_floats, rest, strip);
          }
        }
      });
    }
    output_.Finish(output, scratch,
                   strips_ == 1 ? rest : Activation(Activation::kNone));
  }

 private:
  // The largest output of the depthwise convolution for one strip, in floats: 1
  // MiB, so that it fits into half of a core's L2 cache of 2 MiB.
  static constexpr int64_t kStripFloats = 256 * 1024;

  std::pair<int64_t, int64_t> Strip(int64_t i) const {
    int64_t begin, end;
    Split(depthwise_.rows(), strips_, i, &begin, &end);
    return {begin, end};
  }
  int64_t Length(int64_t i) const { return Strip(i).second - Strip(i).first; }

  // Returns true if strips are faster: if they fit into caches, have about
  // equal lengths, and have so much work that reading all weights of the 1x1
  // convolution for each strip does not matter.
  bool InStrips(int64_t threads) const {
    const int64_t rows = depthwise_.rows();
    const int64_t longest = (rows + threads - 1) / threads;
    const int64_t floats = rows * depthwise_.row_floats();
    return threads > 1 && rows * 100 >= longest * threads * 93 &&
           floats <= kStripFloats * threads &&
           depthwise_.channels() * filters_ <= floats;
  }

  const Depthwise<float> depthwise_;
  const int64_t filters_;
  dnnl::memory filter_;  // in TensorFlow's layout
  int64_t strips_ = 1;
  std::vector<Convolution> pointwise_;  // for each strip
  std::vector<int64_t> scratchpads_;
  int64_t middle_ = 0, rings_ = 0, ring_floats_ = 0;
};

// Like KernelSepConvTask, but with our own matrix product (gemm.h) instead of
// oneDNN's 1x1 convolution, and with pitched tensors of type T. Each thread
// computes both convolutions for strips of rows. If the number of rows cannot
// be divided evenly among the threads, the threads share the rows of the
// depthwise convolution, and then the pixels of the product.
template <typename T>
class GemmSepConvTask : public TypedTask<T> {
  using Rows = typename Depthwise<T>::Rows;
  using Operands = PointwiseOperands<T>;

 public:
  GemmSepConvTask(const TaskSpec& spec, const dnnl::engine& engine)
      : terms_(spec.inputs.begin(),
               spec.inputs.begin() + spec.operands[0].tensors),
        residual_(spec.inputs.back()),
        output_(spec.output),
        has_residual_(spec.op->residual),
        threads_(CurrentThread().lane->size),
        depthwise_(*spec.op, spec.inputs[0].shape, spec.output.shape),
        product_(engine, DenseView(spec.inputs[0].shape, spec.dtype), output_,
                 *spec.op, AsCpu(spec.parameters[1]),
                 spec.op->bias ? AsCpu(spec.parameters[2]) : nullptr),
        in_strips_(CeilDiv(depthwise_.rows(), threads_) * threads_ * 97 <=
                   depthwise_.rows() * 100) {
    const int64_t channels = depthwise_.channels();
    const dnnl::memory::desc plain =
        PlainFilterDesc(*spec.op, /*groups=*/channels, channels, channels);
    filter_ = AsCpu(spec.parameters[0])->Packed(engine, plain, plain);
    const int64_t longest = in_strips_
                                ? StripOf(CeilDiv(depthwise_.rows(), threads_))
                                : depthwise_.rows();
    const int64_t middle_bytes = longest * depthwise_.row_floats() * sizeof(T);
    middle_floats_ = WholeLines(CeilDiv(middle_bytes, sizeof(float))) + kApart;
    ring_floats_ = WholeLines(depthwise_.scratch_floats({})) + kApart;
    // A shorter strip may need more scratch memory than a longer one.
    for (int64_t rows = in_strips_ ? 1 : longest; rows <= longest; ++rows) {
      product_floats_ =
          std::max(product_floats_, product_.scratch_floats(Plan({0, rows})));
    }
  }

  int64_t scratch_floats() const override {
    return threads_ * (ring_floats_ + product_floats_) +
           (in_strips_ ? threads_ : 1) * middle_floats_;
  }

  void Run(const T* const* inputs, T* output,
           const LaneResources& lane) override {
    const typename Depthwise<T>::Image image = ImageOf(terms_, inputs);
    const auto* filter = static_cast<const float*>(filter_.get_data_handle());
    float* const rings = lane.scratch.get();
    float* const middles = rings + threads_ * ring_floats_;
    const auto middle = [&](int64_t i) {
      return reinterpret_cast<T*>(middles + i * middle_floats_);
    };
    const auto multiply = [&](const auto& plan, const T* from, int64_t row,
                              int64_t begin, int64_t end) {
      float* const products =
          middles + (in_strips_ ? threads_ : 1) * middle_floats_;
      product_.Run(plan, OperandsOf(inputs, from, output, row), begin, end,
                   products + ThreadIndex() * product_floats_);
    };
    const auto rows = DenseArguments(depthwise_, filter);
    if (in_strips_) {
      ParallelFor(depthwise_.rows(), 1, [&](int64_t begin, int64_t end) {
        auto strips = rows;
        strips.output = middle(ThreadIndex());
        strips.rows_at_once = StripOf(end - begin);
        strips.use = [&](const Rows& strip) {
          const auto plan = Plan(strip);
          multiply(plan, strips.output, strip.begin, 0, plan.units());
        };
        depthwise_.Run(image, strips, {begin, end},
                       rings + ThreadIndex() * ring_floats_);
      });
      return;
    }
    ParallelFor(depthwise_.rows(), 1, [&](int64_t begin, int64_t end) {
      auto some = rows;
      some.output = middle(0) + begin * depthwise_.row_floats();
      depthwise_.Run(image, some, {begin, end},
                     rings + ThreadIndex() * ring_floats_);
    });
    const auto plan = Plan({0, depthwise_.rows()});
    ParallelFor(plan.units(), 1, [&](int64_t begin, int64_t end) {
      multiply(plan, middle(0), 0, begin, end);
    });
  }

 private:
  // Returns the number of rows of a strip, for a thread that computes `rows`
  // rows. A strip is so long that its product takes longer than reading the
  // filters.
  int64_t StripOf(int64_t rows) const {
    constexpr int64_t kLeastPixels = 112;
    const int64_t length = CeilDiv(kLeastPixels, depthwise_.out_width());
    return CeilDiv(rows, CeilDiv(rows, length));
  }

  // Plans the product for some rows. If !in_strips_, all threads share it.
  typename Pointwise<T>::Plan Plan(const Rows& rows) const {
    return product_.PlanFor((rows.end - rows.begin) * depthwise_.out_width(),
                            in_strips_ ? 1 : threads_);
  }

  // Returns the operands of the product for the rows from `row` on. `middle`
  // has the depthwise convolution's output, beginning with that row.
  Operands OperandsOf(const T* const* inputs, const T* middle, T* output,
                      int64_t row) const {
    const int64_t pixel = row * depthwise_.out_width();
    Operands operands;
    operands.input = middle;
    if (has_residual_) {
      operands.residual = inputs[terms_.size()] + pixel * residual_.pitch;
      operands.residual_pitch = residual_.pitch;
    }
    operands.output = output + pixel * output_.pitch;
    return operands;
  }

  const std::vector<TensorView> terms_;
  const TensorView residual_, output_;
  const bool has_residual_;
  const int threads_;
  const Depthwise<T> depthwise_;
  const Pointwise<T> product_;
  const bool in_strips_;
  dnnl::memory filter_;  // of the depthwise convolution, in TensorFlow's layout
  // The sizes of areas in scratch memory: the values between the convolutions
  // (of a strip, or of all rows), a thread's ring, and a thread's product.
  int64_t middle_floats_ = 0, ring_floats_ = 0, product_floats_ = 0;
};

}  // namespace

std::unique_ptr<Task> MakeSepConvTask(const TaskSpec& spec,
                                      const dnnl::engine& engine) {
  if (spec.dtype == DataType::kBFloat16) {
    return std::make_unique<GemmSepConvTask<BFloat16>>(spec, engine);
  }
  if (Depthwise<float>::Takes(*spec.op, spec.inputs[0].shape,
                              spec.output.shape)) {
    if (spec.op->algorithm == Algorithm::kGemm) {
      return std::make_unique<GemmSepConvTask<float>>(spec, engine);
    }
    return std::make_unique<KernelSepConvTask>(spec, engine);
  }
  return std::make_unique<PrimitiveSepConvTask>(spec, engine);
}

}  // namespace ios::cpu

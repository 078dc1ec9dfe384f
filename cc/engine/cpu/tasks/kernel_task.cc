#include "cc/engine/cpu/tasks/kernel_task.h"

#include <vector>

#include "cc/engine/cpu/kernels/elementwise.h"
#include "cc/engine/cpu/kernels/global_pool.h"
#include "cc/engine/cpu/kernels/normalization.h"
#include "cc/engine/cpu/kernels/pool.h"
#include "cc/engine/cpu/kernels/resize.h"
#include "cc/engine/cpu/kernels/spatial.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/pieces.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {
namespace {

// T is the type of the tensors' elements.
template <typename T>
class KernelTask : public CpuTask {
 public:
  explicit KernelTask(const TaskSpec& spec)
      : op_(*spec.op),
        inputs_(spec.inputs),
        output_(spec.output),
        in_place_(spec.in_place),
        parameters_(spec.parameters) {
    if (TaskReadsPieces(op_)) ranges_ = RangesOf(spec);
    if (op_.type == OperatorType::kNormalize && op_.per_image) {
      image_norm_ = ImageNorm(inputs_[0], output_, op_.groups);
    }
    if (op_.type == OperatorType::kResize) {
      resize_ = ImageResize(op_, inputs_[0], output_);
    }
  }

  int64_t scratch_floats() const override {
    return image_norm_.scratch_floats();
  }

  void Execute(const void* const* inputs, void* output,
               const LaneResources& lane) override {
    Run(reinterpret_cast<const T* const*>(inputs), static_cast<T*>(output),
        lane);
  }

 private:
  void Run(const T* const* inputs, T* output, const LaneResources& lane) {
    const auto source = [&](size_t i) {
      return SourceOf<T>{inputs[i], inputs_[i]};
    };
    const TargetOf<T> target{output, output_};
    switch (op_.type) {
      case OperatorType::kConcat:
        Concat(inputs, output);
        break;
      case OperatorType::kAdd:
        Sum(inputs, output);
        break;
      case OperatorType::kBinary: {
        const SourceOf<T> x = source(0);
        if (op_.operand.empty()) {
          Binary(op_.function, x, source(1), op_.activation, target);
          break;
        }
        const Source constant{AsCpu(parameters_[0])->plain(),
                              DenseView(op_.operand)};
        if (op_.constant_first) {
          Binary(op_.function, constant, x, op_.activation, target);
        } else {
          Binary(op_.function, x, constant, op_.activation, target);
        }
        break;
      }
      case OperatorType::kScale:
        Scale(source(0), AsCpu(parameters_[0])->plain(),
              AsCpu(parameters_[1])->plain(), op_.activation, target);
        break;
      case OperatorType::kGlobalPool:
        GlobalPool(source(0), op_.pool, target);
        break;
      case OperatorType::kReduce:
        ReduceChannels(source(0), op_.pool, target);
        break;
      case OperatorType::kSoftmax:
        Softmax(source(0), target);
        break;
      case OperatorType::kNormalize:
        Normalize(source(0), target, lane);
        break;
      case OperatorType::kChannelShuffle:
        ShuffleChannels(source(0), op_.groups, target);
        break;
      case OperatorType::kPad:
        Pad(source(0), op_, target);
        break;
      case OperatorType::kResize:
        resize_.Run(source(0), target);
        break;
      case OperatorType::kDepthToSpace:
        DepthToSpace(source(0), op_.block_size, target);
        break;
      case OperatorType::kSpaceToDepth:
        SpaceToDepth(source(0), op_.block_size, target);
        break;
      case OperatorType::kLrn:
        LocalResponseNormalization(source(0), op_, target);
        break;
      case OperatorType::kSlice:
        Copy<T>({inputs[0] + op_.offset, {output_.shape, inputs_[0].pitch}},
                target);
        break;
      default:
        for (const Range& range : ranges_) {
          Activate<T>(range.pieces[0].Of(inputs), op_.activation,
                      {output + range.channel, range.view});
        }
    }
  }

  void Concat(const T* const* inputs, T* output) const {
    int64_t channel = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!in_place_[i] && inputs_[i].channels() > 0) {
        Copy<T>({inputs[i], inputs_[i]},
                {output + channel, {inputs_[i].shape, output_.pitch}});
      }
      channel += inputs_[i].channels();
    }
  }

  void Sum(const T* const* inputs, T* output) const {
    for (const Range& range : ranges_) {
      std::vector<SourceOf<T>> terms;
      for (const Piece& piece : range.pieces) {
        terms.push_back(piece.Of(inputs));
      }
      Add<T>(terms, op_.activation, {output + range.channel, range.view});
    }
  }

  void Normalize(const SourceOf<T>& x, const TargetOf<T>& to,
                 const LaneResources& lane) const {
    const Normalization normalization = {op_.epsilon,
                                         AsCpu(parameters_[0])->plain(),
                                         AsCpu(parameters_[1])->plain()};
    if (op_.per_image) {
      image_norm_.Run(x, normalization, to, lane.scratch.get());
    } else {
      NormalizePixels(x, op_.groups, normalization, to);
    }
  }

  const Operator op_;
  const std::vector<TensorView> inputs_;
  const TensorView output_;
  const std::vector<bool> in_place_;
  const std::vector<std::shared_ptr<Parameter>> parameters_;
  std::vector<Range> ranges_;  // for tasks that read pieces
  ImageNorm image_norm_;
  ImageResize resize_;
};

class PoolTask : public CpuTask {
 public:
  explicit PoolTask(const TaskSpec& spec)
      : input_(spec.inputs[0]),
        output_(spec.output),
        pool_(*spec.op, input_.shape, output_.shape) {}

  void Execute(const void* const* inputs, void* output,
               const LaneResources&) override {
    pool_.Run({static_cast<const BFloat16*>(inputs[0]), input_},
              {static_cast<BFloat16*>(output), output_});
  }

 private:
  const TensorView input_, output_;
  const WindowPool pool_;
};

}  // namespace

std::unique_ptr<Task> MakeKernelTask(const TaskSpec& spec) {
  if (spec.dtype == DataType::kBFloat16) {
    return std::make_unique<KernelTask<BFloat16>>(spec);
  }
  return std::make_unique<KernelTask<float>>(spec);
}

std::unique_ptr<Task> MakePoolTask(const TaskSpec& spec) {
  return std::make_unique<PoolTask>(spec);
}

}  // namespace ios::cpu

#include "cc/engine/cpu/tasks/kernel_task.h"

#include <vector>

#include "cc/engine/cpu/kernels/elementwise.h"
#include "cc/engine/cpu/kernels/global_pool.h"
#include "cc/engine/cpu/kernels/normalization.h"
#include "cc/engine/cpu/kernels/resize.h"
#include "cc/engine/cpu/kernels/spatial.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/pieces.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {
namespace {

class KernelTask : public FloatTask {
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

  void Run(const float* const* inputs, float* output,
           const LaneResources& lane) override {
    const auto source = [&](size_t i) { return Source{inputs[i], inputs_[i]}; };
    const Target target{output, output_};
    switch (op_.type) {
      case OperatorType::kConcat:
        Concat(inputs, output);
        break;
      case OperatorType::kAdd:
        Sum(inputs, output);
        break;
      case OperatorType::kBinary: {
        const Source x = source(0);
        const Source y = op_.operand.empty()
                             ? source(1)
                             : Source{AsCpu(parameters_[0])->plain(),
                                      DenseView(op_.operand)};
        Binary(op_.function, op_.constant_first ? y : x,
               op_.constant_first ? x : y, op_.activation, target);
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
        Copy({inputs[0] + op_.offset, {output_.shape, inputs_[0].pitch}},
             target);
        break;
      default:
        for (const Range& range : ranges_) {
          Activate(range.pieces[0].Of(inputs), op_.activation,
                   {output + range.channel, range.view});
        }
    }
  }

 private:
  void Concat(const float* const* inputs, float* output) const {
    int64_t channel = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!in_place_[i] && inputs_[i].channels() > 0) {
        Copy({inputs[i], inputs_[i]},
             {output + channel, {inputs_[i].shape, output_.pitch}});
      }
      channel += inputs_[i].channels();
    }
  }

  void Sum(const float* const* inputs, float* output) const {
    for (const Range& range : ranges_) {
      std::vector<Source> terms;
      for (const Piece& piece : range.pieces) {
        terms.push_back(piece.Of(inputs));
      }
      Add(terms, op_.activation, {output + range.channel, range.view});
    }
  }

  void Normalize(const Source& x, const Target& to,
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

}  // namespace

std::unique_ptr<Task> MakeKernelTask(const TaskSpec& spec) {
  return std::make_unique<KernelTask>(spec);
}

}  // namespace ios::cpu

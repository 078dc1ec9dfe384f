// All stages that are measured belong to one compiled block, in which every
// tensor has its own memory. So a task that several candidates need is compiled
// only once. To measure a whole block, its schedule is bound and run like a
// schedule of a Program.

#include "cc/engine/profiler.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "cc/core/transforms/pad_channels.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/bind_schedule.h"
#include "cc/engine/compiled_block.h"
#include "cc/engine/devices.h"
#include "cc/engine/host/fork_guard.h"
#include "cc/engine/host/host_memory.h"
#include "cc/engine/merge_block.h"
#include "cc/engine/random_parameters.h"

namespace ios {
namespace {

// If the compiled merges of earlier calls take more bytes than this, the next
// call drops them. A block has thousands of possible merges if many
// convolutions read one tensor.
constexpr int64_t kMostMergeBytes = int64_t{256} << 20;

// One caller of the block: the compiled candidates and their memory.
class Caller {
 public:
  Caller(Backend* backend, const Block& block, const std::vector<Shape>& shapes)
      : backend_(backend),
        block_(block),
        shapes_(shapes),
        parameters_(backend) {}

  // Returns the stages of each candidate. They are valid until the next call.
  StatusOr<std::vector<std::vector<BoundStage>>> Bind(
      const std::vector<Schedule>& candidates, int lanes) {
    if (merge_bytes_ > kMostMergeBytes) ForgetMerges();
    std::vector<std::vector<BoundStage>> bound;
    for (const Schedule& schedule : candidates) {
      const ForkGuard no_fork;
      const bool whole = lanes == 0 && Validate(schedule, block_).ok();
      IOS_ASSIGN_OR_RETURN(
          std::vector<BoundStage> of_candidate,
          whole ? BindWhole(schedule) : BindStages(schedule, lanes));
      bound.push_back(std::move(of_candidate));
    }
    return bound;
  }

  // The addresses of the tensors that the bound stages refer to.
  const std::vector<void*>& tensors() const { return tensors_; }

 private:
  // Owns the memory that a block's operators read and write in a measurement.
  struct Memory {
    std::vector<std::shared_ptr<void>> owned;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    void* arena = nullptr;
  };

  // Compiled operators with their own memory. Their tensors start at
  // `first_tensor` in tensors_.
  struct Bench {
    PaddedBlock padded;
    std::unique_ptr<CompiledBlock> compiled;
    Memory memory;
    int64_t bytes = 0;  // a lower bound of the memory
    int first_tensor = 0;
  };

  // A schedule with its own memory. Its stages refer to tensors in tensors_.
  struct Whole {
    BoundSchedule bound;
    Memory memory;
  };

  // Inputs and outputs are padded, too, because inside a network other
  // operators write and read them with padding.
  ChannelPadding channel_padding() const {
    return {backend_->traits().ChannelMultiple(block_.dtype), /*borders=*/true};
  }

  // Checks, before anything is allocated, that enough memory is free, and
  // returns the number of bytes that are needed. These are the inputs, the
  // weights (plain and packed) and, unless `share_memory`, the operators'
  // outputs. Shared memory is checked when it is allocated.
  StatusOr<int64_t> CheckMemory(const Block& block,
                                const std::vector<Shape>& shapes,
                                bool share_memory) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < block.inputs.size(); ++i) {
      bytes += Bytes(block.inputs[i], InputDtype(block, i));
    }
    for (size_t i = 0; i < block.operators.size(); ++i) {
      if (!share_memory) bytes += Bytes(shapes[i], DtypeOf(block, i));
      for (const Shape& shape :
           WeightShapes(block.operators[i], InputShapes(block, shapes, i)[0])) {
        bytes += 2 * NumElements(shape) * static_cast<int64_t>(sizeof(float));
      }
    }
    IOS_RETURN_IF_ERROR(CheckHostMemory(bytes));
    return bytes;
  }

  StatusOr<std::unique_ptr<Bench>> MakeBench(
      const Block& plain, const std::vector<std::vector<int>>& origin) {
    auto bench = std::make_unique<Bench>();
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> plain_shapes,
                         InferShapes(plain));
    bench->padded = PadChannels(plain, plain_shapes, channel_padding());
    const Block& block = bench->padded.block;
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
    IOS_ASSIGN_OR_RETURN(bench->bytes, CheckMemory(block, shapes, false));
    IOS_ASSIGN_OR_RETURN(const Parameters parameters,
                         parameters_.Of(bench->padded, shapes, origin));
    MemoryPlanOptions options;
    options.share_memory = false;
    IOS_ASSIGN_OR_RETURN(
        bench->compiled,
        CompiledBlock::Create(backend_, block, SequentialSchedule(block),
                              parameters, options));
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> arena,
                         backend_->Allocate(bench->compiled->arena_bytes()));
    IOS_ASSIGN_OR_RETURN(bench->memory,
                         MemoryWith(std::move(arena), block, shapes));
    bench->first_tensor = tensors_.size();
    const std::vector<TensorLocation> locations = bench->compiled->Locations();
    const int num_inputs = block.inputs.size();
    for (size_t i = 0; i < locations.size(); ++i) {
      tensors_.push_back(AddressOf(locations[i], bench->memory));
      // Fills the tensors with values, because a candidate reads tensors that
      // earlier operators would have written. Only whole buffers are filled;
      // the other tensors lie inside of these.
      const int op = static_cast<int>(i) - num_inputs;
      if (op >= 0 && bench->compiled->OwnsBuffer(op)) {
        IOS_RETURN_IF_ERROR(UploadRandom(bench->compiled->shapes()[op],
                                         DtypeOf(block, op), tensors_.back()));
      }
    }
    return bench;
  }

  // Allocates memory for inputs, with random values, and for outputs. The
  // result keeps `arena` alive.
  StatusOr<Memory> MemoryWith(std::shared_ptr<void> arena, const Block& block,
                              const std::vector<Shape>& shapes) {
    Memory memory;
    memory.arena = arena.get();
    memory.owned.push_back(std::move(arena));
    const auto allocate = [&](int64_t bytes) -> StatusOr<void*> {
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> data,
                           backend_->Allocate(bytes));
      memory.owned.push_back(std::move(data));
      return memory.owned.back().get();
    };
    for (size_t i = 0; i < block.inputs.size(); ++i) {
      const Shape& shape = block.inputs[i];
      const DataType dtype = InputDtype(block, i);
      IOS_ASSIGN_OR_RETURN(void* const input, allocate(Bytes(shape, dtype)));
      IOS_RETURN_IF_ERROR(UploadRandom(shape, dtype, input));
      memory.inputs.push_back(input);
    }
    for (int out : block.outputs) {
      IOS_ASSIGN_OR_RETURN(void* const output,
                           allocate(Bytes(shapes[out], DtypeOf(block, out))));
      memory.outputs.push_back(output);
    }
    return memory;
  }

  static void* AddressOf(const TensorLocation& location, const Memory& memory) {
    return location.In(memory.inputs, memory.outputs, memory.arena);
  }

  static int64_t Bytes(const Shape& shape, DataType dtype) {
    return NumElements(shape) * SizeOf(dtype);
  }

  Status UploadRandom(const Shape& shape, DataType dtype, void* device) {
    std::vector<float> values(NumElements(shape));
    FillRandom(&random_, &values);
    std::vector<char> converted(Bytes(shape, dtype));
    ConvertFromFloat(values.data(), values.size(), dtype, converted.data());
    return backend_->Upload(converted.data(), converted.size(), device);
  }

  StatusOr<std::vector<BoundStage>> BindOn(Bench* bench,
                                           const std::vector<Stage>& stages,
                                           int lanes) {
    IOS_ASSIGN_OR_RETURN(
        std::vector<BoundStage> bound,
        bench->compiled->Bind(bench->padded.Translate(stages), lanes));
    ShiftTensors(bench->first_tensor, &bound);
    return bound;
  }

  StatusOr<Bench*> MergeBench(const std::vector<int>& ops) {
    std::unique_ptr<Bench>& bench = merges_[ops];
    if (bench) return bench.get();
    IOS_ASSIGN_OR_RETURN(const Block block,
                         MergeBlock(block_, shapes_, ops, backend_->traits()));
    // Only the merged convolution (operator 0) has weights; slices and concats
    // have none.
    std::vector<std::vector<int>> origin(block.operators.size());
    origin[0] = ops;
    IOS_ASSIGN_OR_RETURN(bench, MakeBench(block, origin));
    merge_bytes_ += bench->bytes;
    return bench.get();
  }

  void ForgetMerges() {
    parameters_.ForgetMerged();
    merges_.clear();
    merge_bytes_ = 0;
  }

  StatusOr<std::vector<BoundStage>> BindWhole(const Schedule& schedule) {
    std::unique_ptr<Whole>& known = wholes_[ToJson(schedule)];
    if (known) return known->bound.stages;
    auto whole = std::make_unique<Whole>();
    IOS_ASSIGN_OR_RETURN(const DeviceSchedule on_device,
                         LowerAndPad(block_, schedule, channel_padding()));
    const Block& block = on_device.padded.block;
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
    IOS_RETURN_IF_ERROR(CheckMemory(block, shapes, true).status());
    IOS_ASSIGN_OR_RETURN(
        const Parameters parameters,
        parameters_.Of(on_device.padded, shapes, on_device.lowered.origin));
    BoundSchedule& bound = whole->bound;
    IOS_ASSIGN_OR_RETURN(bound, BindSchedule(backend_, block, shapes,
                                             on_device.schedule, parameters));
    // All schedules share one arena. Only one schedule runs at a time, and it
    // reads only what it has written there.
    if (!arena_ || bound.arena_bytes > arena_bytes_) {
      IOS_ASSIGN_OR_RETURN(arena_, backend_->Allocate(bound.arena_bytes));
      arena_bytes_ = bound.arena_bytes;
    }
    IOS_ASSIGN_OR_RETURN(whole->memory, MemoryWith(arena_, block, shapes));
    ShiftTensors(tensors_.size(), &bound.stages);
    for (const TensorLocation& location : bound.tensors) {
      tensors_.push_back(AddressOf(location, whole->memory));
    }
    known = std::move(whole);
    return known->bound.stages;
  }

  StatusOr<std::vector<BoundStage>> BindStages(const Schedule& schedule,
                                               int lanes) {
    IOS_RETURN_IF_ERROR(ValidateStages(schedule.stages, block_));
    if (!schedule.algorithms.empty()) {
      return InvalidArgument(
          "algorithms can be measured only in a schedule of the whole block");
    }
    if (!plain_) {
      std::vector<std::vector<int>> origin;
      for (size_t i = 0; i < block_.operators.size(); ++i) {
        origin.push_back({static_cast<int>(i)});
      }
      IOS_ASSIGN_OR_RETURN(plain_, MakeBench(block_, origin));
    }
    std::vector<BoundStage> bound;
    for (const Stage& stage : schedule.stages) {
      if (stage.strategy == Strategy::kSplit) {
        return InvalidArgument(
            "a stage that splits the batch can be measured only in a schedule "
            "of the whole block");
      }
      std::vector<BoundStage> part;
      if (stage.strategy == Strategy::kMerge) {
        IOS_ASSIGN_OR_RETURN(Bench* const bench, MergeBench(stage.groups[0]));
        Stage all = {Strategy::kConcurrent, {{}}};
        for (size_t i = 0; i <= stage.groups[0].size(); ++i) {
          all.groups[0].push_back(i);
        }
        IOS_ASSIGN_OR_RETURN(part, BindOn(bench, {all}, lanes));
      } else {
        IOS_ASSIGN_OR_RETURN(part, BindOn(plain_.get(), {stage}, lanes));
      }
      for (BoundStage& s : part) bound.push_back(std::move(s));
    }
    return bound;
  }

  Backend* const backend_;
  const Block& block_;
  const std::vector<Shape>& shapes_;
  RandomParameters parameters_;
  std::mt19937 random_{1};
  std::vector<void*> tensors_;    // addresses, of all benches and schedules
  std::unique_ptr<Bench> plain_;  // the operators without merges
  std::map<std::vector<int>, std::unique_ptr<Bench>> merges_;
  int64_t merge_bytes_ = 0;                               // of all merges_
  std::map<std::string, std::unique_ptr<Whole>> wholes_;  // by their JSON
  std::shared_ptr<void> arena_;  // the largest arena of all wholes_
  int64_t arena_bytes_ = 0;
};

class ProfilerImpl : public Profiler {
 public:
  ProfilerImpl(Backend* backend, const Block& block, std::vector<Shape> shapes)
      : backend_(backend), block_(block), shapes_(std::move(shapes)) {
    const int64_t callers = backend->traits().CallsAtOnce(block.callers);
    for (int64_t i = 0; i < callers; ++i) {
      callers_.push_back(std::make_unique<Caller>(backend, block_, shapes_));
    }
  }

  StatusOr<std::vector<Sample>> Measure(
      const Schedule& schedule, const Measurement& measurement) override {
    IOS_ASSIGN_OR_RETURN(auto samples,
                         MeasureInterleaved({schedule}, measurement));
    return samples[0];
  }

  StatusOr<std::vector<std::vector<Sample>>> MeasureInterleaved(
      const std::vector<Schedule>& candidates,
      const Measurement& measurement) override {
    return CatchExceptions([&] { return MeasureAll(candidates, measurement); });
  }

 private:
  StatusOr<std::vector<std::vector<Sample>>> MeasureAll(
      const std::vector<Schedule>& candidates, const Measurement& measurement) {
    if (measurement.warmup < 0 || measurement.number < 1 ||
        measurement.repeat < 1 || measurement.lanes < 0) {
      return InvalidArgument(
          "warmup and lanes must be at least 0, and number and repeat must be "
          "at least 1");
    }
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::vector<std::vector<BoundStage>>> bound;
    for (const auto& caller : callers_) {
      IOS_ASSIGN_OR_RETURN(bound.emplace_back(),
                           caller->Bind(candidates, measurement.lanes));
    }
    std::vector<MeasuredCaller> measured;
    for (size_t i = 0; i < callers_.size(); ++i) {
      MeasuredCaller& caller = measured.emplace_back();
      for (const auto& stages : bound[i]) caller.candidates.push_back(&stages);
      caller.tensors = &callers_[i]->tensors();
    }
    return backend_->Measure(measured, measurement);
  }

  Backend* const backend_;
  const Block block_;
  const std::vector<Shape> shapes_;
  std::mutex mutex_;  // for callers_
  std::vector<std::unique_ptr<Caller>> callers_;
};

StatusOr<std::unique_ptr<Profiler>> CreateProfiler(const Block& block,
                                                   const std::string& device,
                                                   DeviceAllocator* allocator) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device, allocator));
  IOS_RETURN_IF_ERROR(Validate(block));
  IOS_RETURN_IF_ERROR(backend->Supports(block));
  IOS_ASSIGN_OR_RETURN(std::vector<Shape> shapes, InferShapes(block));
  return std::unique_ptr<Profiler>(
      std::make_unique<ProfilerImpl>(backend, block, std::move(shapes)));
}

}  // namespace

StatusOr<std::unique_ptr<Profiler>> Profiler::Create(
    const Block& block, const std::string& device, DeviceAllocator* allocator) {
  return CatchExceptions(
      [&] { return CreateProfiler(block, device, allocator); });
}

}  // namespace ios

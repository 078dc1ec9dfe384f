#include "cc/engine/program.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "cc/core/ir/merge.h"
#include "cc/core/transforms/lower_merges.h"
#include "cc/core/transforms/pad_channels.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/bind_schedule.h"
#include "cc/engine/compiled_block.h"
#include "cc/engine/devices.h"
#include "cc/engine/host/fork_guard.h"
#include "cc/engine/shared_parameters.h"

namespace ios {
namespace {

// If a program's executions use more than DeviceTraits::execution_bytes, only
// this many of the latest ones are kept.
constexpr size_t kFewExecutions = 8;

Status WrongOutputs(size_t outputs, size_t wanted) {
  return InvalidArgument("the call has " + std::to_string(outputs) +
                         " outputs, but the program has " +
                         std::to_string(wanted));
}

// Returns whether all dimensions but the first are equal.
bool SameButBatch(const Shape& a, const Shape& b) {
  return a.size() == b.size() &&
         std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

// Checks that every operator's weights have the shapes of WeightShapes().
Status CheckWeights(const Block& block, const std::vector<Shape>& shapes,
                    const Weights& weights) {
  if (weights.size() != block.operators.size()) {
    return InvalidArgument("there are weights for " +
                           std::to_string(weights.size()) +
                           " operators, but the block has " +
                           std::to_string(block.operators.size()));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Operator& op = block.operators[i];
    const std::vector<Shape> wanted =
        WeightShapes(op, ShapeOf(block, shapes, op.inputs[0]));
    bool fits = wanted.size() == weights[i].size();
    for (size_t k = 0; fits && k < wanted.size(); ++k) {
      fits = weights[i][k].data && weights[i][k].shape == wanted[k];
    }
    if (!fits) {
      return InvalidArgument("operator " + std::to_string(i) + " '" + op.name +
                             "' does not have the weights that its attributes "
                             "require");
    }
  }
  return Status();
}

// Pads and packs a block's weights for the device.
class ParameterMaker {
 public:
  ParameterMaker(Backend* backend, const Block& block,
                 const std::vector<Shape>& shapes, const Weights& weights)
      : backend_(backend), block_(block), shapes_(shapes), weights_(weights) {}

  // Returns the parameters of the operators of `padded`, the padded form of
  // `lowered`. Schedules of one program share equal parameters.
  StatusOr<Parameters> For(const Lowered& lowered, const PaddedBlock& padded) {
    Parameters parameters(padded.block.operators.size());
    for (size_t i = 0; i < lowered.block.operators.size(); ++i) {
      const Operator& op = lowered.block.operators[i];
      if (op.type == OperatorType::kSlice) continue;
      const int at = padded.operators[i].back();
      const auto [known, is_new] =
          known_.try_emplace({lowered.origin[i], padded.weights[at]});
      if (is_new) {
        IOS_ASSIGN_OR_RETURN(known->second,
                             Make(op, lowered.origin[i], padded.weights[at]));
      }
      parameters[at] = known->second;
    }
    return parameters;
  }

 private:
  using OfOperator = std::vector<std::shared_ptr<Parameter>>;

  // Returns the padded parameters of `op`, which replaces the operators
  // `origin` of the original block.
  StatusOr<OfOperator> Make(const Operator& op, const std::vector<int>& origin,
                            const std::vector<WeightPadding>& paddings) {
    std::vector<ConstArray> arrays;
    std::vector<float> filter, bias;
    if (origin.size() > 1) {
      IOS_ASSIGN_OR_RETURN(const MergePlan plan, PlanMerge(block_, origin));
      const Shape& input =
          ShapeOf(block_, shapes_, block_.operators[origin[0]].inputs[0]);
      std::vector<const float*> filters, biases;
      for (int part : origin) {
        filters.push_back(weights_[part][0].data);
        biases.push_back(block_.operators[part].bias ? weights_[part][1].data
                                                     : nullptr);
      }
      filter = StackFilters(plan, block_, input[3], filters);
      bias = StackBiases(plan, block_, biases);
      const std::vector<Shape> wanted = WeightShapes(op, input);
      arrays.push_back({filter.data(), wanted[0]});
      if (op.bias) arrays.push_back({bias.data(), wanted[1]});
    } else {
      arrays = weights_[origin[0]];
    }
    OfOperator made;
    for (size_t k = 0; k < arrays.size(); ++k) {
      ConstArray array = arrays[k];
      std::vector<float> padded;
      if (!(paddings[k] == WeightPadding{})) {
        padded = PadWeight(array.data, array.shape, paddings[k]);
        array = {padded.data(), PaddedShape(array.shape, paddings[k])};
      }
      IOS_ASSIGN_OR_RETURN(
          std::shared_ptr<Parameter> parameter,
          SharedParameter(backend_, block_.dtype, op, k, array));
      made.push_back(std::move(parameter));
    }
    return made;
  }

  Backend* const backend_;
  const Block& block_;
  const std::vector<Shape>& shapes_;
  const Weights& weights_;
  // The parameters that exist already, keyed by origin and padding.
  std::map<std::pair<std::vector<int>, std::vector<WeightPadding>>, OfOperator>
      known_;
};

// The block in the form that one of its schedules executes, with merges lowered
// and channels padded, and the weights for this form.
struct Scheduled {
  Block block;
  Schedule schedule;
  Parameters parameters;
};

// Counts a call as long as the object exists.
class CountedCall {
 public:
  CountedCall() : callers_(in_progress().fetch_add(1) + 1) {}
  ~CountedCall() { in_progress().fetch_sub(1); }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

  // The number of calls in progress when this one began, including itself.
  int64_t callers() const { return callers_; }

 private:
  static std::atomic<int64_t>& in_progress() {
    static std::atomic<int64_t> count{0};
    // A forked child lacks the threads of the calls in progress.
    [[maybe_unused]] static const int registered =
        pthread_atfork(nullptr, nullptr, [] { in_progress() = 0; });
    return count;
  }

  const int64_t callers_;
};

class ProgramImpl : public Program {
 public:
  ProgramImpl(Backend* backend, const Block& block,
              std::map<Load, Scheduled> scheduled)
      : backend_(backend),
        block_(block),
        scheduled_(std::move(scheduled)),
        has_callers_(std::any_of(
            scheduled_.begin(), scheduled_.end(),
            [](const auto& entry) { return entry.first.callers != 1; })) {}

  Load ScheduledLoad(const Load& load) const override {
    if (!has_callers_) return NearestLoad(scheduled_, load)->first;
    const DeviceTraits& traits = backend_->traits();
    const auto at_once = [&](const Load& of) -> Load {
      return {of.batch, traits.CallsAtOnce(of.callers)};
    };
    std::map<Load, Load> loads;
    for (const auto& scheduled : scheduled_) {
      loads.try_emplace(at_once(scheduled.first), scheduled.first);
    }
    return NearestLoad(loads, at_once(load))->second;
  }

  StatusOr<std::vector<Shape>> OutputShapes(
      const std::vector<Shape>& inputs) const override {
    return CatchExceptions([&] { return InferOutputs(inputs); });
  }

  Status Run(const std::vector<TensorArray>& inputs,
             const std::vector<void*>& outputs, void* stream) override {
    return CatchExceptions(
        [&] { return RunOnDevice(inputs, outputs, stream); });
  }

  Status RunOnHost(const std::vector<TensorArray>& inputs,
                   const std::vector<void*>& outputs) override {
    return CatchExceptions([&] { return CopyAndRun(inputs, outputs); });
  }

  Status Prepare(const std::vector<Shape>& inputs) override {
    return CatchExceptions([&] { return CompileForCallers(inputs); });
  }

  // Compiles the program for the shapes of the block. If compiling includes
  // measurements, also compiles it for all other scheduled batch sizes, so that
  // calls do not wait for measurements. Must be called once, before all other
  // methods.
  Status Initialize() {
    IOS_RETURN_IF_ERROR(Prepare(block_.inputs));
    if (backend_->traits().measures_when_compiling) {
      for (const auto& scheduled : scheduled_) {
        // If this fails, for example because memory is short, the first call
        // with this batch size tries again.
        (void)Prepare(InputsOfBatch(scheduled.first.batch));
      }
    }
    first_inputs_.reset();
    return Status();
  }

  std::vector<std::vector<Shape>> PreparedShapes() const override {
    std::vector<std::vector<Shape>> result;
    const ForkSafeLock lock(&mutex_);
    for (const auto& cached : executions_) {
      if (std::find(result.begin(), result.end(), cached->key.inputs) ==
          result.end()) {
        result.push_back(cached->key.inputs);
      }
    }
    return result;
  }

 private:
  // Identifies an execution.
  struct Key {
    std::vector<Shape> inputs;
    Load scheduled;  // the load of its schedule
    bool operator<(const Key& other) const {
      return std::tie(inputs, scheduled) <
             std::tie(other.inputs, other.scheduled);
    }
    bool operator==(const Key& other) const {
      return inputs == other.inputs && scheduled == other.scheduled;
    }
  };

  struct CachedExecution {
    Key key;
    std::vector<Shape> outputs;
    int lanes = 0;  // the device's number of lanes when this was compiled
    std::unique_ptr<Execution> execution;
  };

  // Returns the block's input shapes with another batch size.
  std::vector<Shape> InputsOfBatch(int64_t batch) const {
    std::vector<Shape> inputs = block_.inputs;
    for (Shape& shape : inputs) {
      if (shape[0] == BatchSize(block_)) shape[0] = batch;
    }
    return inputs;
  }

  Status CompileForCallers(const std::vector<Shape>& inputs) {
    IOS_RETURN_IF_ERROR(WithInputs(block_, inputs).status());
    const Load first = ScheduledLoad({BatchSize(inputs), 1});
    for (auto it = scheduled_.find(first);
         it != scheduled_.end() && it->first.batch == first.batch; ++it) {
      IOS_RETURN_IF_ERROR(ExecutionFor(inputs, it->first.callers).status());
    }
    return Status();
  }

  StatusOr<std::vector<Shape>> InferOutputs(
      const std::vector<Shape>& inputs) const {
    {
      const ForkSafeLock lock(&mutex_);
      for (const auto& cached : executions_) {
        if (cached->key.inputs == inputs) return cached->outputs;
      }
    }
    IOS_ASSIGN_OR_RETURN(const Block block, WithInputs(block_, inputs));
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
    return OfOutputs(block, shapes);
  }

  Status RunOnDevice(const std::vector<TensorArray>& inputs,
                     const std::vector<void*>& outputs, void* stream) {
    const CountedCall call;
    std::vector<Shape> shapes;
    std::vector<const void*> data;
    for (const TensorArray& input : inputs) {
      shapes.push_back(input.shape);
      data.push_back(input.data);
    }
    if (outputs.size() != block_.outputs.size()) {
      return WrongOutputs(outputs.size(), block_.outputs.size());
    }
    IOS_ASSIGN_OR_RETURN(const std::shared_ptr<CachedExecution> cached,
                         ExecutionFor(shapes, call.callers()));
    return cached->execution->Run(data, outputs, stream);
  }

  Status CopyAndRun(const std::vector<TensorArray>& inputs,
                    const std::vector<void*>& outputs) {
    if (backend_->SharesHostMemory()) return Run(inputs, outputs, nullptr);
    const int64_t size = SizeOf(block_.dtype);
    std::vector<std::shared_ptr<void>> memory;
    std::vector<TensorArray> on_device;
    std::vector<Shape> shapes;
    for (const TensorArray& input : inputs) {
      const int64_t bytes = NumElements(input.shape) * size;
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> data,
                           backend_->Allocate(bytes));
      IOS_RETURN_IF_ERROR(backend_->Upload(input.data, bytes, data.get()));
      on_device.push_back({data.get(), input.shape});
      shapes.push_back(input.shape);
      memory.push_back(std::move(data));
    }
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> results,
                         OutputShapes(shapes));
    std::vector<void*> results_on_device;
    for (const Shape& shape : results) {
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> data,
                           backend_->Allocate(NumElements(shape) * size));
      results_on_device.push_back(data.get());
      memory.push_back(std::move(data));
    }
    if (outputs.size() != results.size()) {
      return WrongOutputs(outputs.size(), block_.outputs.size());
    }
    void* const stream = backend_->HostCallStream();
    IOS_RETURN_IF_ERROR(Run(on_device, results_on_device, stream));
    for (size_t i = 0; i < results.size(); ++i) {
      IOS_RETURN_IF_ERROR(backend_->Download(results_on_device[i],
                                             NumElements(results[i]) * size,
                                             stream, outputs[i]));
    }
    return Status();
  }

  static std::vector<Shape> OfOutputs(const Block& block,
                                      const std::vector<Shape>& shapes) {
    std::vector<Shape> outputs;
    for (int out : block.outputs) outputs.push_back(shapes[out]);
    return outputs;
  }

  static StatusOr<Block> WithInputs(Block block,
                                    const std::vector<Shape>& inputs) {
    if (inputs.size() != block.inputs.size()) {
      return InvalidArgument("the number of inputs must be " +
                             std::to_string(block.inputs.size()) + ", not " +
                             std::to_string(inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      // The weights are made for a fixed number of channels. All other
      // dimensions may differ from the dimensions of the block.
      if (inputs[i].size() != block.inputs[i].size() ||
          inputs[i].back() != block.inputs[i].back()) {
        std::string wanted = "[";
        for (size_t d = 1; d < block.inputs[i].size(); ++d) wanted += "?,";
        wanted += std::to_string(block.inputs[i].back()) + "]";
        return InvalidArgument("input " + std::to_string(i) +
                               " has the shape " + ToString(inputs[i]) +
                               ", but must match " + wanted);
      }
      block.inputs[i] = inputs[i];
    }
    return block;
  }

  // Returns the execution for these shapes and this number of callers, and
  // compiles it if necessary. The mutex is released until it is compiled, so
  // that other calls go on. If several calls need the same execution, one
  // compiles it and the others wait.
  StatusOr<std::shared_ptr<CachedExecution>> ExecutionFor(
      const std::vector<Shape>& inputs, int64_t callers) {
    if (!backend_->SharesHostMemory() && ForkGeneration() != generation_) {
      return FailedPrecondition(
          "a process that was forked from a process that uses a GPU cannot use "
          "the GPU. Use the start method 'spawn' of Python's multiprocessing");
    }
    // This check comes before others, because calls with missing inputs have no
    // batch size.
    if (inputs.size() != block_.inputs.size()) {
      return WithInputs(block_, inputs).status();
    }
    const Key key = {inputs, ScheduledLoad({BatchSize(inputs), callers})};
    // Declared before the lock, so that dropped executions are destroyed after
    // the mutex has been released.
    std::vector<std::shared_ptr<CachedExecution>> dropped;
    ForkSafeLock lock(&mutex_);
    std::shared_ptr<CachedExecution> known;
    bool is_first = false;
    while (true) {
      is_first = !first_inputs_;
      if (is_first) first_inputs_ = inputs;
      known = Find(key);
      const auto compiling = compiling_.find(key);
      // Compile again if the device has more lanes now: on a CPU, the process
      // may have been given more cores.
      if (known && (known->lanes >= backend_->traits().lanes ||
                    compiling != compiling_.end())) {
        return known;
      }
      if (compiling == compiling_.end()) break;
      const std::shared_future<void> end = compiling->second;
      lock.Unlock();
      end.wait();
      lock.Lock();
    }
    StatusOr<std::shared_ptr<CachedExecution>> compiled =
        CompileUnlocked(key, MayMeasure(key), &lock);
    if (!compiled.ok()) {
      if (known) return known;
      // This call fails, so the next one counts as the first call.
      if (is_first) first_inputs_.reset();
      return compiled.status();
    }
    if (known) executions_.remove(known);
    dropped.push_back(std::move(known));
    executions_.push_front(*compiled);
    int64_t bytes = 0;
    for (const auto& cached : executions_) bytes += cached->execution->bytes();
    while (executions_.size() > kMaxExecutions ||
           (executions_.size() > kFewExecutions &&
            bytes > backend_->traits().execution_bytes)) {
      bytes -= executions_.back()->execution->bytes();
      dropped.push_back(std::move(executions_.back()));
      executions_.pop_back();
    }
    return compiled;
  }

  // Returns the execution with this key, or null. The caller must hold the
  // mutex.
  std::shared_ptr<CachedExecution> Find(const Key& key) {
    const auto found =
        std::find_if(executions_.begin(), executions_.end(),
                     [&](const auto& cached) { return cached->key == key; });
    if (found == executions_.end()) return nullptr;
    executions_.splice(executions_.begin(), executions_, found);
    return executions_.front();
  }

  // Returns TaskSpec::may_measure for these shapes. It is true for shapes that
  // have a schedule, and for the shapes of the first call or Prepare(). Calls
  // with other shapes must not wait for measurements. If other calls used the
  // device at the same time, measurements and calls would disturb each other.
  // The caller must hold the mutex.
  bool MayMeasure(const Key& key) const {
    if (key.inputs == block_.inputs || key.inputs == first_inputs_) return true;
    if (BatchSize(key.inputs) != key.scheduled.batch) return false;
    return std::equal(key.inputs.begin(), key.inputs.end(),
                      block_.inputs.begin(), SameButBatch);
  }

  // Compiles the program for this key. Unlocks `lock` during that time. If
  // memory is short, drops all executions and tries again.
  StatusOr<std::shared_ptr<CachedExecution>> CompileUnlocked(
      const Key& key, bool may_measure, ForkSafeLock* lock) {
    // On a CPU, a child of fork() goes on with the state of its parent, so it
    // must not miss the thread that compiles. On a GPU, compiling may take
    // minutes, and a child cannot use the GPU anyway.
    const bool allow_fork = !backend_->SharesHostMemory();
    std::promise<void> end;
    compiling_.emplace(key, end.get_future().share());
    lock->Unlock(allow_fork);
    const auto compile = [&] {
      return CatchExceptions([&] { return CompileFor(key, may_measure); });
    };
    StatusOr<std::shared_ptr<CachedExecution>> compiled = compile();
    if (compiled.status().code() == StatusCode::kResourceExhausted) {
      std::list<std::shared_ptr<CachedExecution>> others;
      lock->Lock();
      others.swap(executions_);
      lock->Unlock(allow_fork);
      if (!others.empty()) {
        others.clear();
        compiled = compile();
      }
    }
    lock->Lock();
    compiling_.erase(key);
    end.set_value();
    return compiled;
  }

  StatusOr<std::shared_ptr<CachedExecution>> CompileFor(
      const Key& key, bool may_measure) const {
    const Scheduled& scheduled = scheduled_.at(key.scheduled);
    IOS_ASSIGN_OR_RETURN(const Block block,
                         WithInputs(scheduled.block, key.inputs));
    auto cached = std::make_shared<CachedExecution>();
    cached->key = key;
    cached->lanes = backend_->traits().lanes;
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
    cached->outputs = OfOutputs(block, shapes);
    const ScheduleBinding bind = [this, &scheduled, block, shapes,
                                  may_measure] {
      return BindSchedule(backend_, block, shapes, scheduled.schedule,
                          scheduled.parameters, may_measure);
    };
    IOS_ASSIGN_OR_RETURN(BoundSchedule bound, bind());
    IOS_ASSIGN_OR_RETURN(cached->execution,
                         backend_->Load(std::move(bound), bind));
    return cached;
  }

  Backend* const backend_;
  const Block block_;
  const std::map<Load, Scheduled> scheduled_;
  const bool has_callers_;  // some schedule is for several callers
  const int generation_ = ForkGeneration();
  mutable std::mutex mutex_;  // for the members below
  // The shapes of the first call or Prepare() after Initialize() that does not
  // fail.
  std::optional<std::vector<Shape>> first_inputs_;
  std::list<std::shared_ptr<CachedExecution>> executions_;  // latest first
  // The executions that are being compiled, and the ends of the compilations.
  std::map<Key, std::shared_future<void>> compiling_;
};

// Lowers the block, and pads its channels as the device needs it.
StatusOr<DeviceSchedule> ForDevice(const Backend& backend, const Block& block,
                                   const Schedule& schedule) {
  const int64_t multiple = backend.traits().ChannelMultiple(block.dtype);
  return LowerAndPad(block, schedule, {multiple});
}

StatusOr<std::unique_ptr<Program>> CreateProgram(const Block& block,
                                                 const Schedules& schedules,
                                                 const Weights& weights,
                                                 const std::string& device,
                                                 DeviceAllocator* allocator) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device, allocator));
  IOS_RETURN_IF_ERROR(Validate(block));
  IOS_RETURN_IF_ERROR(backend->Supports(block));
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
  IOS_RETURN_IF_ERROR(CheckWeights(block, shapes, weights));
  if (schedules.empty())
    return InvalidArgument("a program needs at least one schedule");
  std::map<Load, Scheduled> scheduled;
  ParameterMaker parameters(backend, block, shapes, weights);
  for (const auto& [load, schedule] : schedules) {
    IOS_ASSIGN_OR_RETURN(const DeviceSchedule on_device,
                         ForDevice(*backend, block, schedule));
    Scheduled& for_load = scheduled[load];
    for_load.block = on_device.padded.block;
    for_load.block.callers = load.callers;
    for_load.schedule = on_device.schedule;
    IOS_ASSIGN_OR_RETURN(for_load.parameters,
                         parameters.For(on_device.lowered, on_device.padded));
  }
  auto program =
      std::make_unique<ProgramImpl>(backend, block, std::move(scheduled));
  // Compiles once now. This packs the weights, so that the caller may free its
  // copy.
  IOS_RETURN_IF_ERROR(program->Initialize());
  return std::unique_ptr<Program>(std::move(program));
}

StatusOr<int64_t> PlanArena(const Block& block, const Schedule& schedule,
                            const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device, nullptr));
  IOS_RETURN_IF_ERROR(Validate(block));
  IOS_RETURN_IF_ERROR(backend->Supports(block));
  IOS_ASSIGN_OR_RETURN(const DeviceSchedule on_device,
                       ForDevice(*backend, block, schedule));
  const Block& padded = on_device.padded.block;
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(padded));
  return ios::ArenaBytes(backend, padded, shapes, on_device.schedule);
}

}  // namespace

StatusOr<std::unique_ptr<Program>> Program::Create(const Block& block,
                                                   const Schedules& schedules,
                                                   const Weights& weights,
                                                   const std::string& device,
                                                   DeviceAllocator* allocator) {
  return CatchExceptions([&] {
    return CreateProgram(block, schedules, weights, device, allocator);
  });
}

StatusOr<int64_t> Program::ArenaBytes(const Block& block,
                                      const Schedule& schedule,
                                      const std::string& device) {
  return CatchExceptions([&] { return PlanArena(block, schedule, device); });
}

}  // namespace ios

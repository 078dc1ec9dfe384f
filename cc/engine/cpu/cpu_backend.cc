#include "cc/engine/cpu/cpu_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "cc/engine/cpu/callers_sampler.h"
#include "cc/engine/cpu/exit_guard.h"
#include "cc/engine/cpu/free_list.h"
#include "cc/engine/cpu/kernels/instruction_set.h"
#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/rows.h"
#include "cc/engine/cpu/tasks/tasks.h"
#include "cc/engine/cpu/threads/lanes.h"
#include "cc/engine/cpu/useful_threads.h"
#include "cc/engine/cpu/work_sampler.h"
#include "cc/engine/host/float_memory.h"
#include "cc/engine/host/fork_guard.h"
#include "cc/engine/trace/call_trace.h"

namespace ios::cpu {
namespace {

// The revision that is part of Backend::Fingerprint.
constexpr int kRevision = 18;

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) == 0) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown CPU";
}

// Returns the instruction set for the fingerprint. Processors of the same name
// may have different instruction sets, above all in virtual machines.
const char* InstructionSetName() {
  switch (BestBFloat16Products()) {
    case BFloat16Products::kTiles:
      return "AVX-512 with AMX";
    case BFloat16Products::kVectors:
      return "AVX-512 with bfloat16";
    case BFloat16Products::kNone:
      break;
  }
  switch (BestInstructionSet()) {
    case InstructionSet::kAvx512:
      return "AVX-512";
    case InstructionSet::kAvx2:
      return "AVX2";
    case InstructionSet::kBaseline:
      break;
  }
  // On processors without AVX2, our kernels use their baseline, but oneDNN
  // distinguishes AVX and SSE4.1.
  const int isa = static_cast<int>(dnnl::get_effective_cpu_isa());
  return (isa & dnnl_cpu_isa_avx) == dnnl_cpu_isa_avx ? "AVX" : "SSE4.1";
}

// While an object exists, the current thread's lane has at most `threads`
// threads.
class ScopedLaneWidth {
 public:
  explicit ScopedLaneWidth(int threads)
      : lane_(CurrentThread().lane), size_(lane_->size) {
    lane_->size = std::min(size_, threads);
  }
  ~ScopedLaneWidth() { lane_->size = size_; }
  ScopedLaneWidth(const ScopedLaneWidth&) = delete;
  ScopedLaneWidth& operator=(const ScopedLaneWidth&) = delete;

 private:
  Lane* const lane_;
  const int size_;
};

class Cpu : public Backend {
 public:
  Cpu()
      : engine_(dnnl::engine::kind::cpu, 0),
        workspaces_(LanePool::Get().most_cores()) {
    DeviceTraits traits;
    traits.reads_pitched = TaskReadsPitched;
    traits.bfloat16_reads_pitched = true;
    traits.absorbs = TaskAbsorbs;
    traits.pools_activate = true;
    traits.lanes_divide_device = true;
    traits.has_bfloat16 = BestBFloat16Products() != BFloat16Products::kNone;
    for (int i = 1; i <= LanePool::Get().most_cores(); ++i) {
      traits.lanes = i;
      traits_.push_back(traits);
    }
  }

  std::string Fingerprint() const override {
    const dnnl_version_t* version = dnnl_version();
    return ProcessorName() + ", " + std::to_string(Cores()) + " cores, " +
           InstructionSetName() + ", oneDNN " + std::to_string(version->major) +
           "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch) + ", revision " +
           std::to_string(kRevision);
  }

  Status Supports(const Block& block) const override {
    if (block.dtype != DataType::kFloat16) return Status();
    return Unimplemented(
        "blocks of dtype 'float16' are not supported on the CPU; use float32 "
        "or bfloat16 (inputs and outputs may be float16)");
  }

  // Returns the traits for the number of cores that the process may use now,
  // which can change.
  const DeviceTraits& traits() const override { return traits_[Cores() - 1]; }

  StatusOr<std::shared_ptr<Parameter>> MakeParameter(
      const ConstArray& array) override {
    return std::shared_ptr<Parameter>(
        std::make_shared<CpuParameter>(array, &weights_));
  }

  StatusOr<std::unique_ptr<Task>> Compile(const TaskSpec& spec) override {
    const OneDnnCall call;
    IOS_RETURN_IF_ERROR(call.status());
    // Creates the task inside a lane of the task's size, because oneDNN plans
    // for the number of threads of the lane that calls it.
    ThreadState& thread = CurrentThread();
    const ThreadState saved = thread;
    Lane lane;
    lane.size = UsefulThreads(spec, std::max(1, Cores() / spec.lanes));
    lane.planning = true;
    thread = ThreadState{};
    thread.lane = &lane;
    StatusOr<std::unique_ptr<Task>> task =
        CatchExceptions([&] { return CompileTask(spec, engine_); });
    thread = saved;
    if (task.ok()) static_cast<CpuTask*>(task->get())->set_threads(lane.size);
    ExpectStatics(spec.op->type);
    return task;
  }

  StatusOr<std::unique_ptr<Execution>> Load(BoundSchedule schedule,
                                            ScheduleBinding bind) override;

  StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) override {
    std::shared_ptr<void> memory = AllocateFloats((bytes + 3) / 4);
    if (memory) return memory;
    return Status(
        StatusCode::kResourceExhausted,
        "out of memory: cannot allocate " + std::to_string(bytes) + " bytes");
  }

  Status Upload(const void* host, int64_t bytes, void* device) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
    return Status();
  }

  Status Download(const void* device, int64_t bytes, void*,
                  void* host) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
    return Status();
  }

  bool SharesHostMemory() const override { return true; }

  // Runs the stages in order, on the cores of the calling thread's session.
  // `trace` is null if nobody observes the call.
  Status Run(const std::vector<BoundStage>& stages,
             const std::vector<void*>& tensors, CallTrace* trace) {
    const Lease<Workspace> workspace = TakeWorkspace();
    IOS_RETURN_IF_ERROR(ReserveScratch(stages, workspace.get()));
    for (const BoundStage& stage : stages) {
      RunStage(stage, tensors, *workspace, trace);
    }
    return Status();
  }

  StatusOr<std::vector<std::vector<Sample>>> Measure(
      const std::vector<MeasuredCaller>& callers,
      const Measurement& measurement) override {
    return callers.size() == 1 ? MeasureOne(callers[0], measurement)
                               : MeasureTogether(callers, measurement);
  }

 private:
  static int Cores() { return LanePool::Get().cores(); }

  StatusOr<std::vector<std::vector<Sample>>> MeasureOne(
      const MeasuredCaller& caller, const Measurement& measurement) {
    const OneDnnCall call;
    IOS_RETURN_IF_ERROR(call.status());
    const LanePool::Session session(LanePool::Session::kAlone);
    const Lease<Workspace> workspace = TakeWorkspace();
    const std::vector<void*>& tensors = *caller.tensors;
    ResourceMeter meter;
    std::vector<WorkSampler> samplers;
    for (const auto* stages : caller.candidates) {
      IOS_RETURN_IF_ERROR(ReserveScratch(*stages, workspace.get()));
      const auto run = [&tensors, &workspace, stages](int begin, int end) {
        for (int i = begin; i < end; ++i) {
          RunStage((*stages)[i], tensors, *workspace, nullptr);
        }
      };
      samplers.emplace_back(stages->size(), run, measurement.warmup, &meter,
                            &history_);
    }
    std::vector<std::vector<Sample>> samples(samplers.size());
    for (int r = 0; r < measurement.repeat; ++r) {
      for (size_t c = 0; c < samplers.size(); ++c) {
        samples[c].push_back(samplers[c].Take(measurement.number));
      }
    }
    return samples;
  }

  StatusOr<std::vector<std::vector<Sample>>> MeasureTogether(
      const std::vector<MeasuredCaller>& callers,
      const Measurement& measurement) {
    const auto loop = [&](int caller, int candidate, int runs,
                          double least_ms) {
      return CatchExceptions([&] {
        const MeasuredCaller& measured = callers[caller];
        return RunRepeatedly(*measured.candidates[candidate], *measured.tensors,
                             runs, least_ms);
      });
    };
    const int candidates = callers[0].candidates.size();
    CallersSampler sampler(callers.size(), candidates, measurement.warmup,
                           loop);
    std::vector<std::vector<Sample>> samples(candidates);
    for (int r = 0; r < measurement.repeat; ++r) {
      for (int c = 0; c < candidates; ++c) {
        IOS_ASSIGN_OR_RETURN(samples[c].emplace_back(),
                             sampler.Take(c, measurement.number));
      }
    }
    return samples;
  }

  // Runs the stages in a session at least `runs` times, and until `least_ms`
  // milliseconds have passed. Returns the mean time of a run in milliseconds.
  StatusOr<double> RunRepeatedly(const std::vector<BoundStage>& stages,
                                 const std::vector<void*>& tensors, int runs,
                                 double least_ms) {
    using Clock = std::chrono::steady_clock;
    const OneDnnCall call;
    IOS_RETURN_IF_ERROR(call.status());
    const Lease<Workspace> workspace = TakeWorkspace();
    IOS_RETURN_IF_ERROR(ReserveScratch(stages, workspace.get()));
    const LanePool::Session session;
    const Clock::time_point start = Clock::now();
    double ms = 0;
    int done = 0;
    while (done < runs || ms < least_ms) {
      for (const BoundStage& stage : stages) {
        RunStage(stage, tensors, *workspace, nullptr);
      }
      ++done;
      ms = std::chrono::duration<double, std::milli>(Clock::now() - start)
               .count();
    }
    return ms / done;
  }

  // Registers the exit handler again (see WaitForCallsAtExit) after a task of
  // this type was compiled, because oneDNN may have constructed static objects
  // for it. Later tasks of the type may construct more, so this is repeated up
  // to kMost times. The limit is necessary because each call of atexit() takes
  // memory.
  void ExpectStatics(OperatorType type) {
    constexpr int kMost = 200;
    std::atomic<int>& count = compiled_[static_cast<int>(type)];
    if (count.load() >= kMost) return;
    ++count;
    WaitForCallsAtExit();
  }

  // The scratch memory and other resources of each lane of a session. All
  // programs use the same workspaces in turn.
  using Workspace = std::vector<LaneResources>;

  Lease<Workspace> TakeWorkspace() {
    std::unique_ptr<Workspace> workspace = workspaces_.Take();
    if (!workspace) workspace = std::make_unique<Workspace>();
    return {&workspaces_, std::move(workspace)};
  }

  // Enlarges the scratch memory of each lane to the size that `stages` need.
  Status ReserveScratch(const std::vector<BoundStage>& stages,
                        Workspace* workspace) const {
    for (const BoundStage& stage : stages) {
      int64_t floats = 0;
      for (const auto& group : stage.groups) {
        for (const BoundTask& bound : group) {
          floats = std::max(
              floats, static_cast<CpuTask*>(bound.task)->scratch_floats());
        }
      }
      for (int i = 0; i < stage.lanes; ++i) {
        if (i == static_cast<int>(workspace->size())) {
          workspace->push_back({dnnl::stream(engine_), nullptr, 0});
        }
        LaneResources& lane = (*workspace)[i];
        if (floats <= lane.scratch_floats) continue;
        std::shared_ptr<float> scratch = AllocateFloats(floats);
        if (!scratch) {
          return Status(StatusCode::kResourceExhausted,
                        "out of memory: cannot allocate " +
                            std::to_string(floats * 4) +
                            " bytes of scratch memory");
        }
        lane.scratch = std::move(scratch);
        lane.scratch_floats = floats;
      }
    }
    return Status();
  }

  static void RunGroup(const std::vector<BoundTask>& group,
                       const std::vector<void*>& tensors,
                       const Workspace& workspace, int lane, CallTrace* trace) {
    std::vector<const void*> inputs;
    for (const BoundTask& bound : group) {
      inputs.clear();
      for (int i : bound.inputs) inputs.push_back(tensors[i]);
      CpuTask* const task = static_cast<CpuTask*>(bound.task);
      const ScopedLaneWidth narrowed(task->threads());
      const CallTrace::Task traced(trace, bound.number, lane);
      task->Execute(inputs.data(), tensors[bound.output], workspace[lane]);
    }
  }

  static void RunStage(const BoundStage& stage,
                       const std::vector<void*>& tensors,
                       const Workspace& workspace, CallTrace* trace) {
    const int groups = stage.groups.size();
    if (stage.lanes <= 1) {
      for (const auto& group : stage.groups) {
        RunGroup(group, tensors, workspace, 0, trace);
      }
      return;
    }
    // Each lane takes the next group when it has finished its current one.
    std::atomic<int> next{0};
    const int threads = CurrentThread().lane->size / stage.lanes;
    LanePool::RunLanes(stage.lanes, threads, [&](int lane) {
      for (int g = next.fetch_add(1); g < groups; g = next.fetch_add(1)) {
        RunGroup(stage.groups[g], tensors, workspace, lane, trace);
      }
    });
  }

  std::vector<DeviceTraits> traits_;  // traits_[i] is for i + 1 cores
  static constexpr int kTypes = std::size(kOperatorTypes);
  std::array<std::atomic<int>, kTypes> compiled_{};  // tasks of each type
  WorkSampler::History history_;  // used only in sessions of kind kAlone
  dnnl::engine engine_;
  FloatPool weights_;
  FreeList<Workspace> workspaces_;
};

// An execution with several copies of its tasks and arena, one for each call
// that runs at the same time. A task serves one call at a time, because
// oneDNN's primitives store the addresses of their arguments.
class CpuExecution : public Execution {
 public:
  static StatusOr<std::unique_ptr<Execution>> Create(Cpu* backend,
                                                     BoundSchedule schedule,
                                                     ScheduleBinding bind) {
    std::unique_ptr<CpuExecution> execution(
        new CpuExecution(backend, schedule, std::move(bind)));
    IOS_ASSIGN_OR_RETURN(std::unique_ptr<Copy> first,
                         execution->MakeCopy(std::move(schedule)));
    execution->copies_.Add(std::move(first));
    return std::unique_ptr<Execution>(std::move(execution));
  }

  Status Run(const std::vector<const void*>& inputs,
             const std::vector<void*>& outputs, void*) override {
    const OneDnnCall call;
    IOS_RETURN_IF_ERROR(call.status());
    const TraceObservers observers;
    if (copies_.most() < LanePool::Get().cores()) {
      // Takes the copy before the session begins, so a call that waits for a
      // copy does not occupy cores.
      IOS_ASSIGN_OR_RETURN(const Lease<Copy> copy, TakeCopy());
      const LanePool::Session session(most_threads_);
      return RunCopy(*copy, inputs, outputs, observers);
    }
    const LanePool::Session session(most_threads_);
    IOS_ASSIGN_OR_RETURN(const Lease<Copy> copy, TakeCopy());
    return RunCopy(*copy, inputs, outputs, observers);
  }

  int64_t bytes() const override { return copies_.made() * arena_bytes_; }

 private:
  struct Copy {
    BoundSchedule schedule;
    std::shared_ptr<void> arena;
  };

  // The arenas of all copies together may have this many bytes per core. With
  // fewer than 16 cores, the limit for 16 cores applies. A single copy may
  // exceed the limit.
  static constexpr int64_t kArenaBytesPerCore = int64_t{16} << 20;

  CpuExecution(Cpu* backend, const BoundSchedule& schedule,
               ScheduleBinding bind)
      : backend_(backend),
        bind_(std::move(bind)),
        most_threads_(
            MostThreads(schedule.stages, LanePool::Get().most_cores())),
        arena_bytes_(schedule.arena_bytes),
        copies_(std::clamp<int64_t>(
            kArenaBytesPerCore * std::max(16, LanePool::Get().most_cores()) /
                std::max<int64_t>(schedule.arena_bytes, 1),
            1, LanePool::Get().most_cores())) {}

  Status RunCopy(const Copy& copy, const std::vector<const void*>& inputs,
                 const std::vector<void*>& outputs,
                 const TraceObservers& observers) {
    std::vector<void*> tensors;
    tensors.reserve(copy.schedule.tensors.size());
    for (const TensorLocation& location : copy.schedule.tensors) {
      tensors.push_back(location.In(inputs, outputs, copy.arena.get()));
    }
    if (!observers.any()) {
      return backend_->Run(copy.schedule.stages, tensors, nullptr);
    }
    CallTrace trace(observers, copy.schedule.info);
    return backend_->Run(copy.schedule.stages, tensors, &trace);
  }

  StatusOr<std::unique_ptr<Copy>> MakeCopy(BoundSchedule schedule) const {
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> arena,
                         backend_->Allocate(schedule.arena_bytes));
    return std::unique_ptr<Copy>(
        new Copy{std::move(schedule), std::move(arena)});
  }

  StatusOr<std::unique_ptr<Copy>> BindCopy() const {
    const ForkGuard no_fork;
    return CatchExceptions([this]() -> StatusOr<std::unique_ptr<Copy>> {
      IOS_ASSIGN_OR_RETURN(BoundSchedule schedule, bind_());
      return MakeCopy(std::move(schedule));
    });
  }

  StatusOr<Lease<Copy>> TakeCopy() {
    Status failed;
    Lease<Copy> lease = copies_.Take([&]() -> std::unique_ptr<Copy> {
      StatusOr<std::unique_ptr<Copy>> copy = BindCopy();
      if (copy.ok()) return std::move(*copy);
      failed = copy.status();
      return nullptr;
    });
    if (!lease.get()) return failed;
    return lease;
  }

  Cpu* const backend_;
  const ScheduleBinding bind_;
  const int most_threads_;  // the largest number of threads a call can use
  const int64_t arena_bytes_;
  Copies<Copy> copies_;
};

StatusOr<std::unique_ptr<Execution>> Cpu::Load(BoundSchedule schedule,
                                               ScheduleBinding bind) {
  return CpuExecution::Create(this, std::move(schedule), std::move(bind));
}

}  // namespace

Backend* CpuBackend() {
  static Backend* backend = new Cpu;
  return backend;
}

}  // namespace ios::cpu

#include "cc/engine/cpu/cpu_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <dnnl.hpp>
#include <fstream>
#include <string>
#include <utility>

#include "cc/engine/cpu/exit_guard.h"
#include "cc/engine/cpu/kernels/instruction_set.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/rows.h"
#include "cc/engine/cpu/tasks/tasks.h"
#include "cc/engine/cpu/threads/lanes.h"
#include "cc/engine/cpu/work_sampler.h"
#include "cc/engine/host/float_memory.h"
#include "cc/engine/host/fork_guard.h"

namespace ios::cpu {
namespace {

// See Backend::Fingerprint.
constexpr int kRevision = 11;

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

// The instruction set is part of the fingerprint: processors of the same name,
// above all virtual ones, may differ in it.
const char* InstructionSetName() {
  switch (BestInstructionSet()) {
    case InstructionSet::kAvx512:
      return "AVX-512";
    case InstructionSet::kAvx2:
      return "AVX2";
    case InstructionSet::kBaseline:
      break;
  }
  // oneDNN has several instruction sets for processors on which our kernels use
  // their baseline.
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
        lanes_(LanePool::Get().most_cores()) {
    for (LaneResources& lane : lanes_) lane.stream = dnnl::stream(engine_);
    DeviceTraits traits;
    traits.reads_pitched = TaskReadsPitched;
    traits.absorbs = TaskAbsorbs;
    traits.pools_activate = true;
    traits.lanes_divide_device = true;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      traits.lanes = i + 1;
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

  Status Supports(DataType dtype) const override {
    if (dtype == DataType::kFloat32) return Status();
    return Unimplemented(std::string("dtype '") + ToString(dtype) +
                         "' is not supported on the CPU; use float32");
  }

  // The result changes when the process may use more cores than before.
  const DeviceTraits& traits() const override { return traits_[Cores() - 1]; }

  StatusOr<std::shared_ptr<Parameter>> MakeParameter(
      const ConstArray& array) override {
    return std::shared_ptr<Parameter>(
        std::make_shared<CpuParameter>(array, &weights_));
  }

  StatusOr<std::unique_ptr<Task>> Compile(const TaskSpec& spec) override {
    const OneDnnCall call;
    IOS_RETURN_IF_ERROR(call.status());
    // oneDNN plans for the number of threads of the lane that it is called on.
    ThreadState& thread = CurrentThread();
    const ThreadState saved = thread;
    Lane lane;
    lane.size = std::max(1, Cores() / spec.lanes);
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

  StatusOr<std::unique_ptr<Execution>> Load(BoundSchedule schedule) override;

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

  // Runs the stages in order on all cores. Other callers wait.
  Status Run(const std::vector<BoundStage>& stages,
             const std::vector<void*>& tensors) {
    const OneDnnCall call;
    IOS_RETURN_IF_ERROR(call.status());
    const LanePool::Session session;
    IOS_RETURN_IF_ERROR(ReserveScratch(stages));
    RunStages(stages, tensors);
    return Status();
  }

  StatusOr<std::vector<std::vector<Sample>>> Measure(
      const std::vector<const std::vector<BoundStage>*>& candidates,
      const std::vector<void*>& tensors,
      const Measurement& measurement) override {
    const OneDnnCall call;
    IOS_RETURN_IF_ERROR(call.status());
    const LanePool::Session session;
    ResourceMeter meter;
    std::vector<WorkSampler> samplers;
    for (const auto* stages : candidates) {
      IOS_RETURN_IF_ERROR(ReserveScratch(*stages));
      const auto run = [this, stages, &tensors](int begin, int end) {
        for (int i = begin; i < end; ++i) RunStage((*stages)[i], tensors);
      };
      samplers.emplace_back(stages->size(), run, measurement.warmup, &meter,
                            &history_);
    }
    std::vector<std::vector<Sample>> samples(candidates.size());
    for (int r = 0; r < measurement.repeat; ++r) {
      for (size_t c = 0; c < candidates.size(); ++c) {
        samples[c].push_back(samplers[c].Take(measurement.number));
      }
    }
    return samples;
  }

 private:
  static int Cores() { return LanePool::Get().cores(); }

  // Call it after a task of this type was compiled: oneDNN may have constructed
  // static objects for the task. Later tasks may use other implementations,
  // which construct more objects. But exit() keeps a list of the functions to
  // call, so the number of registrations is limited.
  void ExpectStatics(OperatorType type) {
    constexpr int kMost = 200;
    std::atomic<int>& count = compiled_[static_cast<int>(type)];
    if (count.load() >= kMost) return;
    ++count;
    WaitForCallsAtExit();
  }

  // Makes the lanes' scratch memory, which all programs share, large enough for
  // `stages`.
  Status ReserveScratch(const std::vector<BoundStage>& stages) {
    for (const BoundStage& stage : stages) {
      int64_t floats = 0;
      for (const auto& group : stage.groups) {
        for (const BoundTask& bound : group) {
          floats = std::max(
              floats, static_cast<CpuTask*>(bound.task)->scratch_floats());
        }
      }
      for (int i = 0; i < stage.lanes; ++i) {
        LaneResources& lane = lanes_[i];
        if (floats <= lane.scratch_floats) continue;
        std::shared_ptr<float> scratch = AllocateFloats(floats);
        if (!scratch) {
          return Status(StatusCode::kResourceExhausted,
                        "out of memory: cannot allocate " +
                            std::to_string(floats * 4) +
                            " bytes of scratch memory");
        }
        const ForkGuard no_fork;
        lane.scratch = std::move(scratch);
        lane.scratch_floats = floats;
      }
    }
    return Status();
  }

  void RunGroup(const std::vector<BoundTask>& group, int lane,
                const std::vector<void*>& tensors) {
    std::vector<const float*> inputs;
    for (const BoundTask& bound : group) {
      inputs.clear();
      for (int i : bound.inputs) {
        inputs.push_back(static_cast<const float*>(tensors[i]));
      }
      CpuTask* const task = static_cast<CpuTask*>(bound.task);
      const ScopedLaneWidth narrowed(task->threads());
      task->Run(inputs.data(), static_cast<float*>(tensors[bound.output]),
                lanes_[lane]);
    }
  }

  void RunStages(const std::vector<BoundStage>& stages,
                 const std::vector<void*>& tensors) {
    for (const BoundStage& stage : stages) RunStage(stage, tensors);
  }

  void RunStage(const BoundStage& stage, const std::vector<void*>& tensors) {
    const int groups = stage.groups.size();
    if (stage.lanes <= 1) {
      for (const auto& group : stage.groups) RunGroup(group, 0, tensors);
      return;
    }
    // Each lane takes the next group when it has finished its current one.
    std::atomic<int> next{0};
    const int threads = Cores() / stage.lanes;
    LanePool::Get().RunLanes(stage.lanes, threads, [&](int lane) {
      for (int g = next.fetch_add(1); g < groups; g = next.fetch_add(1)) {
        RunGroup(stage.groups[g], lane, tensors);
      }
    });
  }

  std::vector<DeviceTraits> traits_;  // traits_[i] is for i + 1 cores
  static constexpr int kTypes = std::size(kOperatorTypes);
  std::array<std::atomic<int>, kTypes> compiled_{};  // tasks of each type
  WorkSampler::History history_;                     // used in sessions
  dnnl::engine engine_;
  FloatPool weights_;
  std::vector<LaneResources> lanes_;  // used inside a session
};

// Since one execution runs at a time, one arena is enough for all callers.
class CpuExecution : public Execution {
 public:
  CpuExecution(Cpu* backend, BoundSchedule schedule,
               std::shared_ptr<void> arena)
      : backend_(backend),
        schedule_(std::move(schedule)),
        arena_(std::move(arena)) {}

  Status Run(const std::vector<const void*>& inputs,
             const std::vector<void*>& outputs, void*) override {
    std::vector<void*> tensors;
    tensors.reserve(schedule_.tensors.size());
    for (const TensorLocation& location : schedule_.tensors) {
      tensors.push_back(location.In(inputs, outputs, arena_.get()));
    }
    return backend_->Run(schedule_.stages, tensors);
  }

 private:
  Cpu* const backend_;
  const BoundSchedule schedule_;
  const std::shared_ptr<void> arena_;
};

StatusOr<std::unique_ptr<Execution>> Cpu::Load(BoundSchedule schedule) {
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> arena,
                       Allocate(schedule.arena_bytes));
  return std::unique_ptr<Execution>(
      new CpuExecution(this, std::move(schedule), std::move(arena)));
}

}  // namespace

Backend* CpuBackend() {
  static Backend* backend = new Cpu;
  return backend;
}

}  // namespace ios::cpu

#include "cc/engine/engine_api.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/ir/problem.h"
#include "cc/engine/devices.h"
#include "cc/engine/host/abort_message.h"
#include "cc/engine/host/host_memory.h"
#include "cc/engine/host/resource_use.h"
#include "cc/engine/profiler.h"
#include "cc/engine/program.h"
#include "cc/engine/shared_names.h"
#include "cc/engine/trace/recorder.h"

struct ios_meter {
  std::unique_ptr<ios::ResourceMeter> meter;
  ios::ResourceUse start;
};

struct ios_profiler {
  std::unique_ptr<ios::Profiler> profiler;
};

struct ios_program {
  std::unique_ptr<ios::Program> program;
  std::vector<size_t> input_ranks;
};

namespace {

std::string& LastError() {
  thread_local std::string error;
  return error;
}

bool& LastErrorIsExhaustion() {
  thread_local bool exhaustion = false;
  return exhaustion;
}

int Report(const ios::Status& status) noexcept {
  LastErrorIsExhaustion() =
      status.code() == ios::StatusCode::kResourceExhausted;
  try {
    LastError() = status.message();
  } catch (const std::exception&) {
    LastError().clear();  // there is no memory for the message
  }
  return status.ok() ? 0 : 1;
}

// Returns the value of `function`, or reports its error and returns null.
template <typename F>
auto OrNull(F&& function) -> std::decay_t<decltype(*function())> {
  auto result = ios::CatchExceptions(function);
  return Report(result.status()) == 0 ? *result : nullptr;
}

ios::StatusOr<char*> Copied(const std::string& text) {
  char* const copy = strdup(text.c_str());
  if (!copy) return ios::ResourceExhausted("out of memory");
  return copy;
}

// The arguments of ios_program_create that describe the weights.
struct WeightArrays {
  const float* const* data = nullptr;
  const int64_t* sizes = nullptr;
  int count = 0;
};

ios::StatusOr<ios::Weights> ArrangeWeights(const ios::Block& block,
                                           const WeightArrays& weights) {
  IOS_ASSIGN_OR_RETURN(const std::vector<ios::Shape> shapes,
                       ios::InferShapes(block));
  ios::Weights arranged;
  int next = 0;
  for (const ios::Operator& op : block.operators) {
    std::vector<ios::ConstArray> arrays;
    for (const ios::Shape& shape :
         ios::WeightShapes(op, ios::ShapeOf(block, shapes, op.inputs[0]))) {
      if (next >= weights.count ||
          weights.sizes[next] != ios::NumElements(shape)) {
        return ios::InvalidArgument(
            "weight " + std::to_string(next) + " of '" + op.name +
            "' is missing, or its number of elements does not match shape " +
            ios::ToString(shape));
      }
      arrays.push_back({weights.data[next++], shape});
    }
    arranged.push_back(std::move(arrays));
  }
  if (next != weights.count) {
    return ios::InvalidArgument("the number of weights is " +
                                std::to_string(weights.count) +
                                ", but must be " + std::to_string(next));
  }
  return arranged;
}

ios::Status CreateProgram(const char* block_json, const char* schedule_json,
                          const WeightArrays& weights, const char* device,
                          ios_program* out) {
  IOS_ASSIGN_OR_RETURN(const ios::Block block, ios::BlockFromJson(block_json));
  IOS_ASSIGN_OR_RETURN(const ios::Schedule schedule,
                       ios::ScheduleFromJson(schedule_json));
  IOS_ASSIGN_OR_RETURN(const ios::Weights arranged,
                       ArrangeWeights(block, weights));
  IOS_ASSIGN_OR_RETURN(
      out->program,
      ios::Program::Create(block, {{ios::LoadOf(block), schedule}}, arranged,
                           device));
  for (const ios::Shape& shape : block.inputs) {
    out->input_ranks.push_back(shape.size());
  }
  return ios::Status();
}

ios::Status MeasureCandidates(ios_profiler* profiler,
                              const char* const* candidates, int count,
                              const ios::Measurement& measurement,
                              double* latencies, uint8_t* disturbed) {
  std::vector<ios::Schedule> schedules;
  for (int i = 0; i < count; ++i) {
    IOS_ASSIGN_OR_RETURN(ios::Schedule schedule,
                         ios::ScheduleFromJson(candidates[i]));
    schedules.push_back(std::move(schedule));
  }
  IOS_ASSIGN_OR_RETURN(
      const std::vector<std::vector<ios::Sample>> measured,
      profiler->profiler->MeasureInterleaved(schedules, measurement));
  for (const std::vector<ios::Sample>& of_candidate : measured) {
    for (const ios::Sample& sample : of_candidate) {
      *latencies++ = sample.ms;
      *disturbed++ = sample.disturbed;
    }
  }
  return ios::Status();
}

ios::StatusOr<std::vector<ios::TensorArray>> Arrays(const ios_program* program,
                                                    const void* const* inputs,
                                                    const int64_t* shapes,
                                                    int input_count) {
  if (input_count != static_cast<int>(program->input_ranks.size())) {
    return ios::InvalidArgument("the call has " + std::to_string(input_count) +
                                " inputs, but the program has " +
                                std::to_string(program->input_ranks.size()));
  }
  std::vector<ios::TensorArray> arrays;
  for (int i = 0; i < input_count; ++i) {
    const size_t rank = program->input_ranks[i];
    arrays.push_back({inputs[i], ios::Shape(shapes, shapes + rank)});
    shapes += rank;
  }
  return arrays;
}

}  // namespace

extern "C" {

const char* ios_last_error(void) { return LastError().c_str(); }

int ios_last_error_is_exhaustion(void) { return LastErrorIsExhaustion(); }

void ios_free_string(char* text) { std::free(text); }

int64_t ios_failed_captures(void) { return ios::FailedCaptures(); }

void ios_add_library_directory(const char* directory) {
  Report(ios::CatchExceptions([&] {
    ios::AddLibraryDirectory(directory);
    return ios::Status();
  }));
}

void ios_allow_threads(int threads) { ios::AllowThreads(threads); }

char* ios_shared_names(void) {
  return OrNull([&] { return Copied(ios::SharedNamesJson()); });
}

char* ios_device_fingerprint(const char* device) {
  return OrNull([&]() -> ios::StatusOr<char*> {
    IOS_ASSIGN_OR_RETURN(const std::string fingerprint,
                         ios::DeviceFingerprint(device));
    return Copied(fingerprint);
  });
}

char* ios_device_directory(const char* fingerprint) {
  return OrNull([&] { return Copied(ios::DeviceDirectory(fingerprint)); });
}

int ios_lane_count(const char* device) {
  const ios::StatusOr<int> lanes =
      ios::CatchExceptions([&] { return ios::LaneCount(device); });
  return Report(lanes.status()) == 0 ? *lanes : 0;
}

int ios_lanes_divide_device(const char* device) {
  const ios::StatusOr<bool> divide =
      ios::CatchExceptions([&] { return ios::LanesDivideDevice(device); });
  return Report(divide.status()) == 0 ? *divide : -1;
}

int ios_has_bfloat16(const char* device) {
  const ios::StatusOr<bool> has =
      ios::CatchExceptions([&] { return ios::HasBFloat16(device); });
  return Report(has.status()) == 0 ? *has : -1;
}

char* ios_problem(const char* block) {
  return OrNull([&]() -> ios::StatusOr<char*> {
    IOS_ASSIGN_OR_RETURN(const ios::Block parsed, ios::BlockFromJson(block));
    IOS_ASSIGN_OR_RETURN(const std::string problem, ios::ProblemJson(parsed));
    return Copied(problem);
  });
}

char* ios_part(const char* block, const int* operators, int count) {
  return OrNull([&]() -> ios::StatusOr<char*> {
    IOS_ASSIGN_OR_RETURN(const ios::Block parsed, ios::BlockFromJson(block));
    IOS_RETURN_IF_ERROR(ios::Validate(parsed));
    IOS_ASSIGN_OR_RETURN(const std::vector<ios::Shape> shapes,
                         ios::InferShapes(parsed));
    const std::vector<int> members(operators, operators + std::max(count, 0));
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i] < (i > 0 ? members[i - 1] + 1 : 0) ||
          members[i] >= static_cast<int>(parsed.operators.size())) {
        return ios::InvalidArgument(
            "the indices of operators must be valid and in ascending order");
      }
    }
    ios::Block part = ios::TakePart(parsed, shapes, members).block;
    if (!part.operators.empty()) part.name = part.operators[0].name;
    IOS_ASSIGN_OR_RETURN(const std::string problem, ios::ProblemJson(part));
    return Copied(problem);
  });
}

int ios_check_schedule(const char* block, const char* schedule) {
  return Report(ios::CatchExceptions([&]() -> ios::Status {
    IOS_ASSIGN_OR_RETURN(const ios::Block parsed, ios::BlockFromJson(block));
    return ios::ParseSchedule(schedule, parsed).status();
  }));
}

int64_t ios_arena_bytes(const char* block, const char* schedule,
                        const char* device) {
  const ios::StatusOr<int64_t> bytes =
      ios::CatchExceptions([&]() -> ios::StatusOr<int64_t> {
        IOS_ASSIGN_OR_RETURN(const ios::Block parsed,
                             ios::BlockFromJson(block));
        IOS_ASSIGN_OR_RETURN(const ios::Schedule stages,
                             ios::ScheduleFromJson(schedule));
        return ios::Program::ArenaBytes(parsed, stages, device);
      });
  return Report(bytes.status()) == 0 ? *bytes : -1;
}

void ios_exit_on_abort(const char* message, int descriptor) {
  ios::ExitOnAbort(message, descriptor);
}

int ios_check_memory(int64_t bytes) {
  return Report(
      ios::CatchExceptions([&] { return ios::CheckHostMemory(bytes); }));
}

ios_profiler* ios_profiler_create(const char* block, const char* device) {
  return OrNull([&]() -> ios::StatusOr<ios_profiler*> {
    IOS_ASSIGN_OR_RETURN(const ios::Block parsed, ios::BlockFromJson(block));
    IOS_ASSIGN_OR_RETURN(std::unique_ptr<ios::Profiler> profiler,
                         ios::Profiler::Create(parsed, device));
    return new ios_profiler{std::move(profiler)};
  });
}

void ios_profiler_delete(ios_profiler* profiler) { delete profiler; }

int ios_profiler_measure(ios_profiler* profiler, const char* const* candidates,
                         int count, int warmup, int number, int repeat,
                         int lanes, double* latencies, uint8_t* disturbed) {
  return Report(ios::CatchExceptions([&] {
    return MeasureCandidates(profiler, candidates, count,
                             {warmup, number, repeat, lanes}, latencies,
                             disturbed);
  }));
}

ios_meter* ios_meter_create(void) {
  return OrNull([&]() -> ios::StatusOr<ios_meter*> {
    return new ios_meter{std::make_unique<ios::ResourceMeter>(), {}};
  });
}

void ios_meter_delete(ios_meter* meter) { delete meter; }

void ios_meter_start(ios_meter* meter) { meter->start = meter->meter->Read(); }

int ios_meter_stop(ios_meter* meter, int waits_for_device, int compete,
                   double* cpu_ms) {
  const ios::ResourceUse end = meter->meter->Read();
  *cpu_ms = static_cast<double>(end.cpu_ns - meter->start.cpu_ns) / 1e6;
  return ios::IsDisturbed(meter->start, end,
                          compete            ? ios::Threads::kCompeting
                          : waits_for_device ? ios::Threads::kWaiting
                                             : ios::Threads::kMany);
}

int ios_trace_start(int64_t max_tasks) {
  return Report(
      ios::CatchExceptions([&] { return ios::Recorder::Start(max_tasks); }));
}

char* ios_trace_stop(void) {
  return OrNull([]() -> ios::StatusOr<char*> {
    IOS_ASSIGN_OR_RETURN(const ios::Trace trace, ios::Recorder::Stop());
    return Copied(ios::ToJson(trace));
  });
}

ios_program* ios_program_create(const char* block, const char* schedule,
                                const float* const* weights,
                                const int64_t* sizes, int count,
                                const char* device) {
  return OrNull([&]() -> ios::StatusOr<ios_program*> {
    auto program = std::make_unique<ios_program>();
    IOS_RETURN_IF_ERROR(CreateProgram(block, schedule, {weights, sizes, count},
                                      device, program.get()));
    return program.release();
  });
}

void ios_program_delete(ios_program* program) { delete program; }

int ios_program_run(ios_program* program, const void* const* inputs,
                    const int64_t* shapes, int input_count,
                    void* const* outputs, int output_count) {
  return Report(ios::CatchExceptions([&]() -> ios::Status {
    IOS_ASSIGN_OR_RETURN(const std::vector<ios::TensorArray> arrays,
                         Arrays(program, inputs, shapes, input_count));
    return program->program->RunOnHost(
        arrays, std::vector<void*>(outputs, outputs + output_count));
  }));
}

int ios_program_enqueue(ios_program* program, const void* const* inputs,
                        const int64_t* shapes, int input_count,
                        void* const* outputs, int output_count, void* stream) {
  return Report(ios::CatchExceptions([&]() -> ios::Status {
    IOS_ASSIGN_OR_RETURN(const std::vector<ios::TensorArray> arrays,
                         Arrays(program, inputs, shapes, input_count));
    return program->program->Run(
        arrays, std::vector<void*>(outputs, outputs + output_count), stream);
  }));
}

}  // extern "C"

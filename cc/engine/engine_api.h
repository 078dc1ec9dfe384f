// The C API of the engine, which runs and measures blocks without TensorFlow.
// Blocks and schedules are UTF-8 JSON strings (cc/core/ir/block.h, schedule.h).
// Weights are dense row-major float32 arrays. Tensors are dense row-major
// arrays of the block's dtype. All arrays are in host memory unless a comment
// says otherwise. A function that fails returns null or a code other than 0,
// and ios_last_error() then returns the reason. "See ios::X" names the C++
// function or class that implements a function.
#ifndef IOS_TF_CC_ENGINE_ENGINE_API_H_
#define IOS_TF_CC_ENGINE_ENGINE_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ios_meter ios_meter;
typedef struct ios_profiler ios_profiler;
typedef struct ios_program ios_program;

// Returns the message of the calling thread's last error. The string is valid
// until the thread's next call.
const char* ios_last_error(void);
// Returns 1 if the thread's last call failed because memory or threads ran out,
// else 0.
int ios_last_error_is_exhaustion(void);

// Frees a string that one of these functions returned.
void ios_free_string(char* text);

// Returns the names (such as operator types) and limits (such as sizes) that
// are valid in blocks, schedules and other JSON documents. The result is JSON.
// See ios::SharedNamesJson.
char* ios_shared_names(void);

// Returns the number of CUDA graphs that could not be created. See
// ios::FailedCaptures.
int64_t ios_failed_captures(void);

// Adds a directory to search for cuDNN and NVRTC. See ios::AddLibraryDirectory.
void ios_add_library_directory(const char* directory);

// Limits the threads of the device "cpu". See ios::AllowThreads.
void ios_allow_threads(int threads);

// Returns a text that names everything that latencies on `device` ("cpu",
// "gpu", … see ios::GetBackend) depend on. See ios::DeviceFingerprint.
char* ios_device_fingerprint(const char* device);
// Returns the name of the device's directory in a schedule cache. See
// ios::DeviceDirectory.
char* ios_device_directory(const char* fingerprint);

// Returns the number of lanes of `device`, or 0 on failure.
int ios_lane_count(const char* device);

// Returns 1 if each lane has its own part of the device (CPU), 0 if all lanes
// share it (GPU), or -1 on failure.
int ios_lanes_divide_device(const char* device);

// Returns 1 if `device` multiplies bfloat16 numbers faster than float32, 0 if
// not, or -1 on failure.
int ios_has_bfloat16(const char* device);

// Returns a block in the form that the scheduler reads. See ios::ProblemJson.
char* ios_problem(const char* block);
// Returns a new block with the given operators of `block`, in the form that the
// scheduler reads (see ios::TakePart). The indices must be in ascending order.
// The new block has the name of its first operator.
char* ios_part(const char* block, const int* operators, int count);

// Returns 0 if the schedule is valid for the block and contains the block's
// signature. See ios::ParseSchedule.
int ios_check_schedule(const char* block, const char* schedule);

// Returns the number of bytes for the tensors inside of the block that one call
// needs, or -1 on failure. See ios::Program::ArenaBytes.
int64_t ios_arena_bytes(const char* block, const char* schedule,
                        const char* device);

// Returns 0 if `bytes` bytes of host memory are free. See ios::CheckHostMemory.
int ios_check_memory(int64_t bytes);

// Makes abort(), and exit() with a code other than 0, write the message to a
// file descriptor. See ios::ExitOnAbort.
void ios_exit_on_abort(const char* message, int descriptor);

// Creates a profiler, which measures stages of one block. See ios::Profiler.
ios_profiler* ios_profiler_create(const char* block, const char* device);
void ios_profiler_delete(ios_profiler* profiler);
// Measures `count` schedules in turn. A schedule may contain only some
// operators of the block. For `warmup`, `number`, `repeat` and `lanes`, see
// ios::Measurement. For sample r of candidate c, writes the milliseconds to
// latencies[c * repeat + r]. Also writes to disturbed[c * repeat + r]: 1 if
// another process disturbed the sample, else 0.
int ios_profiler_measure(ios_profiler* profiler, const char* const* candidates,
                         int count, int warmup, int number, int repeat,
                         int lanes, double* latencies, uint8_t* disturbed);

// Creates a meter, which detects whether other processes disturb this process.
// It covers the threads that exist when it is created. See ios::ResourceMeter.
ios_meter* ios_meter_create(void);
void ios_meter_delete(ios_meter* meter);
void ios_meter_start(ios_meter* meter);
// Returns 1 if other processes disturbed the work since ios_meter_start, else
// 0. Writes the processor time of all threads since then to `cpu_ms`.
// `waits_for_device` is 1 if the threads may wait for a GPU, otherwise 0.
// `compete` is 1 if more threads compute than there are cores, otherwise 0.
int ios_meter_stop(ios_meter* meter, int waits_for_device, int compete,
                   double* cpu_ms);

// Starts a trace of the calls of programs, which keeps up to `max_tasks` runs
// of operators (see ios::Recorder::Start).
int ios_trace_start(int64_t max_tasks);
// Stops the trace and returns it as JSON (see ios::ToJson of ios::Trace).
char* ios_trace_stop(void);

// Creates a program from a block, a schedule and weights (see ios::Program).
// `weights` has the weights of all operators in order, and `sizes` has the
// number of floats of each weight.
ios_program* ios_program_create(const char* block, const char* schedule,
                                const float* const* weights,
                                const int64_t* sizes, int count,
                                const char* device);
void ios_program_delete(ios_program* program);
// Runs the program once. `shapes` has the shapes of all inputs, one after
// another; each has the rank of the block's input. Outputs must be large enough
// for the shapes that the block computes from these inputs.
int ios_program_run(ios_program* program, const void* const* inputs,
                    const int64_t* shapes, int input_count,
                    void* const* outputs, int output_count);
// Does the same as ios_program_run for device memory, and enqueues the work on
// `stream`. See ios::Program::Run.
int ios_program_enqueue(ios_program* program, const void* const* inputs,
                        const int64_t* shapes, int input_count,
                        void* const* outputs, int output_count, void* stream);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_ENGINE_ENGINE_API_H_

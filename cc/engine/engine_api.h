// C API of the engine: runs and measures blocks without TensorFlow. Blocks and
// schedules are UTF-8 JSON strings (cc/core/ir/block.h, schedule.h). Weights
// are dense row-major float32 arrays. Tensors are dense row-major arrays of the
// block's dtype. All are in host memory unless a comment says otherwise.
// Functions that can fail return null or a code other than 0. Then
// ios_last_error() returns the reason for the calling thread.
#ifndef IOS_TF_CC_ENGINE_ENGINE_API_H_
#define IOS_TF_CC_ENGINE_ENGINE_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ios_meter ios_meter;
typedef struct ios_profiler ios_profiler;
typedef struct ios_program ios_program;

// The calling thread's last error. Valid until the thread's next call.
const char* ios_last_error(void);
// 1 if the last call failed because memory or threads ran out.
int ios_last_error_is_exhaustion(void);

// Frees a string that one of these functions returned.
void ios_free_string(char* text);

// The names and limits of documents; ios::SharedNamesJson.
char* ios_shared_names(void);

// The number of CUDA graphs that could not be created; ios::FailedCaptures.
int64_t ios_failed_captures(void);

// Adds a directory to search for cuDNN and NVRTC; ios::AddLibraryDirectory.
void ios_add_library_directory(const char* directory);

// Names everything that latencies on `device` ("cpu", "gpu", … see
// ios::GetBackend) depend on; ios::DeviceFingerprint.
char* ios_device_fingerprint(const char* device);
// The name of the device's directory in a schedule cache; ios::DeviceDirectory.
char* ios_device_directory(const char* fingerprint);

// The number of lanes of `device`; 0 on failure.
int ios_lane_count(const char* device);

// 1 if each lane has a part of the device, 0 if all share it, -1 on failure.
int ios_lanes_divide_device(const char* device);

// Returns a block as the scheduler sees it; ios::ProblemJson.
char* ios_problem(const char* block);
// Returns a new block with the given operators of `block`, as the scheduler
// sees it (see ios::TakePart). The indices must ascend. The new block has the
// name of its first operator.
char* ios_part(const char* block, const int* operators, int count);

// 0 if the schedule is valid for the block and contains the block's signature;
// ios::ParseSchedule.
int ios_check_schedule(const char* block, const char* schedule);

// 0 if this much host memory is free; ios::CheckHostMemory.
int ios_check_memory(int64_t bytes);

// Makes abort(), and exit() with a code other than 0, write the message to a
// file descriptor; ios::ExitOnAbort.
void ios_exit_on_abort(const char* message, int descriptor);

// Measures stages of one block; ios::Profiler.
ios_profiler* ios_profiler_create(const char* block, const char* device);
void ios_profiler_delete(ios_profiler* profiler);
// Measures `count` schedules in turn. They need not cover the block. For
// `warmup`, `number`, `repeat` and `lanes`, see ios::Measurement. For sample r
// of candidate c, writes the milliseconds to latencies[c * repeat + r]. Also
// writes to disturbed[c * repeat + r]: 1 if another process disturbed the
// sample, else 0.
int ios_profiler_measure(ios_profiler* profiler, const char* const* candidates,
                         int count, int warmup, int number, int repeat,
                         int lanes, double* latencies, uint8_t* disturbed);

// Detects whether other processes disturb this process; ios::ResourceMeter. A
// meter covers the threads that exist when it is created.
ios_meter* ios_meter_create(void);
void ios_meter_delete(ios_meter* meter);
void ios_meter_start(ios_meter* meter);
// 1 if the work since the start was disturbed, else 0. Writes the processor
// time of all threads since the start to `cpu_ms`. `waits_for_device`: 1 if the
// threads may wait for a GPU.
int ios_meter_stop(ios_meter* meter, int waits_for_device, double* cpu_ms);

// Creates a program from a block, a schedule and weights; ios::Program.
// `weights` has the weights of all operators in order, and `sizes` has their
// numbers of floats.
ios_program* ios_program_create(const char* block, const char* schedule,
                                const float* const* weights,
                                const int64_t* sizes, int count,
                                const char* device);
void ios_program_delete(ios_program* program);
// Runs the program once. `shapes` has the concatenated shapes of the inputs,
// which have the ranks of the block's inputs. Outputs must be large enough for
// the shapes that the block gives for these inputs.
int ios_program_run(ios_program* program, const void* const* inputs,
                    const int64_t* shapes, int input_count,
                    void* const* outputs, int output_count);
// The same with device memory; the work is enqueued on `stream`. See
// ios::Program::Run.
int ios_program_enqueue(ios_program* program, const void* const* inputs,
                        const int64_t* shapes, int input_count,
                        void* const* outputs, int output_count, void* stream);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_ENGINE_ENGINE_API_H_

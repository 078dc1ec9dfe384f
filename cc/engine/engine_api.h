// C API of the engine: runs and measures without TensorFlow. Strings are UTF-8
// JSON (cc/core/ir/block.h, schedule.h); weights are dense row-major float32
// arrays, tensors dense row-major arrays of the block's dtype, all in host
// memory unless said otherwise. Functions that can fail return null or a code
// other than 0; ios_last_error() then says why, for the calling thread.
#ifndef IOS_TF_CC_ENGINE_ENGINE_API_H_
#define IOS_TF_CC_ENGINE_ENGINE_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ios_meter ios_meter;
typedef struct ios_profiler ios_profiler;
typedef struct ios_program ios_program;

// Valid until the thread's next call.
const char* ios_last_error(void);
// 1 if it failed for want of memory or threads.
int ios_last_error_is_exhaustion(void);

// For strings these functions return.
void ios_free_string(char* text);

// How many CUDA graphs could not be made; ios::FailedCaptures.
int64_t ios_failed_captures(void);

// One more directory to look in for cuDNN and NVRTC; ios::AddLibraryDirectory.
void ios_add_library_directory(const char* directory);

// Names all that latencies on `device` ("cpu", "gpu", … see ios::GetBackend)
// depend on; ios::DeviceFingerprint.
char* ios_device_fingerprint(const char* device);
// The name of the device's directory in a schedule cache; ios::DeviceDirectory.
char* ios_device_directory(const char* fingerprint);

// The most lanes `device` has; 0 on failure.
int ios_lane_count(const char* device);

// 1 if each lane has a part of the device, 0 if all share it, -1 on failure.
int ios_lanes_divide_device(const char* device);

// A block as the scheduler sees it; ios::ProblemJson.
char* ios_problem(const char* block);
// The same of some of its operators, whose indices ascend, as a block of their
// own, called as the first of them; ios::TakePart.
char* ios_part(const char* block, const int* operators, int count);

// 0 if the block may be executed by the schedule, which carries its signature;
// ios::ParseSchedule.
int ios_check_schedule(const char* block, const char* schedule);

// 0 if so many bytes of the host's memory are free; ios::CheckHostMemory.
int ios_check_memory(int64_t bytes);

// From now on abort(), and exit() with a code that is not 0, write the message
// to a descriptor; ios::ExitOnAbort.
void ios_exit_on_abort(const char* message, int descriptor);

// Measures stages of one block; ios::Profiler.
ios_profiler* ios_profiler_create(const char* block, const char* device);
void ios_profiler_delete(ios_profiler* profiler);
// `candidates` are `count` schedules that need not cover the block, measured in
// turn; the numbers are ios::Measurement's. Of sample r of candidate c,
// latencies[c * repeat + r] gets the milliseconds, and disturbed[c * repeat +
// r] 1 if another process disturbed it, else 0.
int ios_profiler_measure(ios_profiler* profiler, const char* const* candidates,
                         int count, int warmup, int number, int repeat,
                         int lanes, double* latencies, uint8_t* disturbed);

// Tells whether others disturb what this process does; ios::ResourceMeter. A
// meter knows the threads that the process has when it is made.
ios_meter* ios_meter_create(void);
void ios_meter_delete(ios_meter* meter);
void ios_meter_start(ios_meter* meter);
// 1 if what happened since the start was disturbed, else 0. `cpu_ms`:
// processor time of all threads since then. `waits_for_device`: the threads
// may wait for a GPU.
int ios_meter_stop(ios_meter* meter, int waits_for_device, double* cpu_ms);

// A block with schedule and weights, ready to run; ios::Program. `weights` are
// those of all operators in order, `sizes` their numbers of floats.
ios_program* ios_program_create(const char* block, const char* schedule,
                                const float* const* weights,
                                const int64_t* sizes, int count,
                                const char* device);
void ios_program_delete(ios_program* program);
// `shapes` holds the inputs' shapes one after the other; ranks are the
// program's. Runs once; outputs must hold what the block's shapes say for these
// inputs.
int ios_program_run(ios_program* program, const void* const* inputs,
                    const int64_t* shapes, int input_count,
                    void* const* outputs, int output_count);
// The same with device memory, enqueued on `stream`; ios::Program::Run.
int ios_program_enqueue(ios_program* program, const void* const* inputs,
                        const int64_t* shapes, int input_count,
                        void* const* outputs, int output_count, void* stream);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_ENGINE_ENGINE_API_H_

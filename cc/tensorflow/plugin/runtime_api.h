// C API of the plugin. Python and servers that load this library use it to
// optimise graphs without annotations. (A session's configuration can name
// "IosOptimizer" instead; see ios_optimizer.h.)
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_RUNTIME_API_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_RUNTIME_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Frees a string that one of these functions has returned.
void ios_tf_free_string(char* text);

// From now on, when TensorFlow optimises a frozen graph, the plugin gives it
// schedules from the cache. `on_miss` is "skip", "greedy" or "search".
// `batch_size` replaces unknown batch sizes. `callers` is the number of callers
// that schedules are looked up for. `precision` is "float32", "bfloat16" or
// "auto". Returns null, or an error message about the arguments.
char* ios_tf_enable(const char* cache_dir, const char* on_miss,
                    int64_t batch_size, int64_t callers, const char* precision);
void ios_tf_disable(void);

// Returns the options, and counts of the work done so far (runtime.h), as JSON.
char* ios_tf_status(void);

// Writes later warnings to standard error, whatever TensorFlow's log level is.
void ios_tf_show_warnings(void);

// Returns how often regions have packed their weights; see
// ios::tf::RegionPackings.
int64_t ios_tf_packings(void);

// Makes regions compute in bfloat16 (if not 0) or not (if 0), whatever the
// processor can do. For tests.
void ios_tf_set_computes_bfloat16(int computes);

// Returns the names in graphs and caches (names.h) as JSON.
char* ios_tf_names(void);

// Asks the searching thread for a block's schedule and waits for it, as the
// optimizer does if `on_miss` is "search". Returns null if the search fails.
char* ios_tf_search(const char* problem);

// The functions from here on are for the searching thread (search_queue.h).
// ios_tf_open_search() announces this thread. Its arguments are Python's
// functions PyGILState_Check, PyEval_SaveThread and PyEval_RestoreThread (or
// null for each), and the time in milliseconds within which the thread must
// begin each search.
void ios_tf_open_search(int (*holds_lock)(void), void* (*release_lock)(void),
                        void (*acquire_lock)(void*), int patience_ms);
void ios_tf_close_search(void);
// Waits for a problem, stores its JSON in `problem` and returns its number.
// Returns 0 if the search was closed.
int64_t ios_tf_take_problem(char** problem);
// Reports that the search for problem `number` begins. Returns 0 if its caller
// no longer waits.
int ios_tf_begin_search(int64_t number);
// Gives the schedule of problem `number`, as JSON, to its caller. If the search
// failed, `schedule` is null and `error` gives the reason.
void ios_tf_give_schedule(int64_t number, const char* schedule,
                          const char* error);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_RUNTIME_API_H_

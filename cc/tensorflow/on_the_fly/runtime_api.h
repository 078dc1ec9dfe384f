// C API of the plugin: switches the optimisation of graphs without schedules,
// for Python and for servers that load this library (session configurations
// name "IosOptimizer" instead, see ios_optimizer.h).
#ifndef IOS_TF_CC_TENSORFLOW_ON_THE_FLY_RUNTIME_API_H_
#define IOS_TF_CC_TENSORFLOW_ON_THE_FLY_RUNTIME_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// For strings these functions return.
void ios_tf_free_string(char* text);

// From now on frozen graphs get schedules from the cache when TensorFlow
// optimises them. `on_miss`: "pass", "greedy" or "search". `batch_size`: in
// place of unknown ones. Returns null, or what is wrong with the arguments.
char* ios_tf_enable(const char* cache_dir, const char* on_miss,
                    int64_t batch_size);
void ios_tf_disable(void);

// JSON: the options, and counts of what has been done (runtime.h).
char* ios_tf_status(void);

// How often regions packed their weights; ios::tf::RegionPackings.
int64_t ios_tf_packings(void);

// JSON: names in graphs and caches (names.h).
char* ios_tf_names(void);

// Asks for a block's schedule and waits, as the optimizer does for a block
// without one if `on_miss` is "search". Null where there is none.
char* ios_tf_search(const char* problem);

// For the thread that searches (search_queue.h). The functions are
// PyGILState_Check, PyEval_SaveThread and PyEval_RestoreThread, or null.
void ios_tf_open_search(int (*holds_lock)(void), void* (*release_lock)(void),
                        void (*acquire_lock)(void*), int patience_ms);
void ios_tf_close_search(void);
// Waits for a problem; its number, 0 once the search is closed.
int64_t ios_tf_take_problem(char** problem);
// Says that the search begins; 0 if nobody waits for it any more.
int ios_tf_begin_search(int64_t number);
// The schedule's JSON, or, where there is none, null and the reason.
void ios_tf_give_schedule(int64_t number, const char* schedule,
                          const char* error);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_ON_THE_FLY_RUNTIME_API_H_

// SearchQueue: passes problems from the optimizer to a Python thread, which
// searches for a schedule. Threads that run the optimizer must not run Python
// code themselves, because they would wait for Python's global lock (GIL). They
// may hold locks of TensorFlow, and the thread that has the GIL may wait for
// one of these locks: a deadlock. A thread that runs the optimizer may also
// hold the GIL itself; Search() then releases it.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_SEARCH_QUEUE_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_SEARCH_QUEUE_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "cc/core/status.h"

namespace ios::tf {

// Functions of the Python interpreter, as pointers, because this library is not
// linked with Python. All are null in a process without an interpreter.
struct Interpreter {
  int (*holds_lock)() = nullptr;          // PyGILState_Check
  void* (*release_lock)() = nullptr;      // PyEval_SaveThread
  void (*acquire_lock)(void*) = nullptr;  // PyEval_RestoreThread
};

class SearchQueue {
 public:
  // Returns the queue of this process. A forked child gets a new queue, because
  // its parent's searcher does not exist in the child.
  static SearchQueue& Global();

  // Asks for a schedule of `problem` and waits for it. Callers are served one
  // after the other. Returns FailedPrecondition if no searcher exists, or if
  // the searcher does not begin in time because a thread keeps the GIL (perhaps
  // while it waits for the calling thread).
  StatusOr<std::string> Search(const std::string& problem);

  // The functions from here on are for the searcher, the Python thread. Open()
  // announces it; it must begin each search within the time `patience`. Close()
  // makes all waiting callers fail.
  void Open(const Interpreter& interpreter, std::chrono::milliseconds patience);
  void Close();
  // Waits until a search is requested, and stores the JSON of the block to
  // schedule in `problem`. The caller must not hold the GIL. Returns the
  // request's number, or 0 once the queue is closed.
  int64_t Take(std::string* problem);
  // Reports that the searcher has the GIL and begins the search. Returns false
  // if the caller no longer waits.
  bool Begin(int64_t number);
  void Give(int64_t number, StatusOr<std::string> schedule);

 private:
  enum class State { kNone, kAsked, kTaken, kBegun, kAnswered };

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  Interpreter interpreter_;
  std::chrono::milliseconds patience_{0};
  // The state, number and JSON of the problem for which a schedule is being
  // searched.
  State state_ = State::kNone;
  int64_t number_ = 0;
  std::string problem_;
  StatusOr<std::string> answer_ = std::string();
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_SEARCH_QUEUE_H_

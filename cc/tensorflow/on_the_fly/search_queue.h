// SearchQueue: how the optimizer asks the Python scheduler for a schedule.
// TensorFlow calls the optimizer from threads that may or may not hold Python's
// global lock, and may itself hold locks that the lock's holder waits for. So
// no such thread runs Python: a thread of Python's own takes the problems.
#ifndef IOS_TF_CC_TENSORFLOW_ON_THE_FLY_SEARCH_QUEUE_H_
#define IOS_TF_CC_TENSORFLOW_ON_THE_FLY_SEARCH_QUEUE_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "cc/core/status.h"

namespace ios::tf {

// Functions of the Python interpreter, which this library is not linked to; all
// null in a process without one.
struct Interpreter {
  int (*holds_lock)() = nullptr;          // PyGILState_Check
  void* (*release_lock)() = nullptr;      // PyEval_SaveThread
  void (*acquire_lock)(void*) = nullptr;  // PyEval_RestoreThread
};

class SearchQueue {
 public:
  // The process's; in a forked child, whose parent's searcher is gone, a new
  // one.
  static SearchQueue& Global();

  // Asks for a schedule of `problem` and waits for it; one caller after the
  // other. FailedPrecondition if there is no searcher, or if it does not come:
  // somebody keeps Python's lock, perhaps while waiting for this very thread.
  StatusOr<std::string> Search(const std::string& problem);

  // For the searcher. Open() says that there is one, with `patience` for it to
  // begin; Close() sends all who wait away.
  void Open(const Interpreter& interpreter, std::chrono::milliseconds patience);
  void Close();
  // Waits for a problem, without Python's lock; its number, or 0 once the queue
  // is closed.
  int64_t Take(std::string* problem);
  // Says that Python runs, and looks at the problem; false if it is too late.
  bool Begin(int64_t number);
  void Give(int64_t number, StatusOr<std::string> schedule);

 private:
  enum class State { kNone, kAsked, kTaken, kBegun, kAnswered };

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  Interpreter interpreter_;
  std::chrono::milliseconds patience_{0};
  // The one problem that is being searched.
  State state_ = State::kNone;
  int64_t number_ = 0;
  std::string problem_;
  StatusOr<std::string> answer_ = std::string();
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_ON_THE_FLY_SEARCH_QUEUE_H_

#include "cc/tensorflow/plugin/search_queue.h"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace ios::tf {
namespace {

// Releases Python's global lock (GIL) while this object exists, if the thread
// holds the GIL.
class LockReleased {
 public:
  explicit LockReleased(const Interpreter& interpreter)
      : interpreter_(interpreter) {
    if (interpreter_.holds_lock && interpreter_.holds_lock()) {
      thread_ = interpreter_.release_lock();
    }
  }
  ~LockReleased() {
    if (thread_) interpreter_.acquire_lock(thread_);
  }
  LockReleased(const LockReleased&) = delete;
  LockReleased& operator=(const LockReleased&) = delete;

 private:
  const Interpreter interpreter_;
  void* thread_ = nullptr;
};

}  // namespace

SearchQueue& SearchQueue::Global() {
  struct Owned {
    pid_t process;
    SearchQueue queue;
  };
  static std::atomic<Owned*> current{nullptr};
  Owned* known = current.load();
  while (!known || known->process != getpid()) {
    // After fork(), the parent's queue may be locked forever. The child leaves
    // it alone and makes a new one.
    auto* fresh = new Owned{getpid(), {}};
    if (current.compare_exchange_strong(known, fresh)) return fresh->queue;
    delete fresh;
  }
  return known->queue;
}

StatusOr<std::string> SearchQueue::Search(const std::string& problem) {
  Interpreter interpreter;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    interpreter = interpreter_;
  }
  // The GIL is released before the mutex is locked, and acquired again after it
  // is unlocked, because the searcher needs both.
  const LockReleased released(interpreter);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !open_ || state_ == State::kNone; });
  if (!open_)
    return FailedPrecondition(
        "this process has no thread that searches for schedules");
  const int64_t number = ++number_;
  problem_ = problem;
  state_ = State::kAsked;
  changed_.notify_all();
  const auto is = [&](State state) {
    return open_ && number_ == number && state_ == state;
  };
  const auto waiting = [&] { return is(State::kAsked) || is(State::kTaken); };
  if (!changed_.wait_for(lock, patience_, [&] { return !waiting(); })) {
    state_ = State::kNone;
    changed_.notify_all();
    return FailedPrecondition(
        "the search thread cannot acquire Python's global interpreter lock");
  }
  changed_.wait(lock, [&] { return !is(State::kBegun); });
  if (!is(State::kAnswered)) {
    return FailedPrecondition("the search for a schedule was cancelled");
  }
  state_ = State::kNone;
  changed_.notify_all();
  return std::move(answer_);
}

void SearchQueue::Open(const Interpreter& interpreter,
                       std::chrono::milliseconds patience) {
  std::lock_guard<std::mutex> lock(mutex_);
  interpreter_ = interpreter;
  patience_ = patience;
  open_ = true;
  state_ = State::kNone;
}

void SearchQueue::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
  state_ = State::kNone;
  changed_.notify_all();
}

int64_t SearchQueue::Take(std::string* problem) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !open_ || state_ == State::kAsked; });
  if (!open_) return 0;
  state_ = State::kTaken;
  *problem = problem_;
  changed_.notify_all();
  return number_;
}

bool SearchQueue::Begin(int64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (number != number_ || state_ != State::kTaken) return false;
  state_ = State::kBegun;
  changed_.notify_all();
  return true;
}

void SearchQueue::Give(int64_t number, StatusOr<std::string> schedule) {
  std::lock_guard<std::mutex> lock(mutex_);
  // Ignores the schedule of a search that was cancelled after Begin().
  if (number != number_ || state_ != State::kBegun) return;
  answer_ = std::move(schedule);
  state_ = State::kAnswered;
  changed_.notify_all();
}

}  // namespace ios::tf

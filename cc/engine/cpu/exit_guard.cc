#include "cc/engine/cpu/exit_guard.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>

namespace ios::cpu {
namespace {

// The longest time that exit() waits for calls of other threads. The second
// limit applies if the thread that called exit() is itself inside a call,
// because the other calls may be waiting for that call.
constexpr std::chrono::seconds kLongest(20), kLongestInsideCall(1);

struct Calls {
  std::mutex mutex;
  std::condition_variable ended;
  int running = 0;
  bool exiting = false;
};

// Returns the number of calls that the current thread is inside of.
int& Depth() {
  thread_local int depth = 0;
  return depth;
}

// Returns the state of all calls, which is never destroyed.
Calls& AllCalls() {
  static auto* const calls = [] {
    // A child of fork() has only the thread that forked, so it counts only the
    // calls of this thread.
    pthread_atfork(nullptr, nullptr, [] {
      new (&AllCalls()) Calls;
      AllCalls().running = Depth() > 0 ? 1 : 0;
    });
    return new Calls;
  }();
  return *calls;
}

void WaitForCalls() {
  Calls& calls = AllCalls();
  const int own = Depth() > 0 ? 1 : 0;
  std::unique_lock<std::mutex> lock(calls.mutex);
  calls.exiting = true;
  calls.ended.wait_for(lock, own > 0 ? kLongestInsideCall : kLongest,
                       [&] { return calls.running <= own; });
}

}  // namespace

OneDnnCall::OneDnnCall() : entered_(true) {
  if (Depth() == 0) {
    Calls& calls = AllCalls();
    std::lock_guard<std::mutex> lock(calls.mutex);
    entered_ = !calls.exiting;
    if (entered_) ++calls.running;
  }
  if (entered_) ++Depth();
}

OneDnnCall::~OneDnnCall() {
  if (!entered_ || --Depth() > 0) return;
  Calls& calls = AllCalls();
  std::lock_guard<std::mutex> lock(calls.mutex);
  --calls.running;
  if (calls.exiting) calls.ended.notify_all();
}

Status OneDnnCall::status() const {
  if (entered_) return Status();
  return FailedPrecondition(
      "the process is exiting, so the engine does not accept calls any more");
}

void WaitForCallsAtExit() { std::atexit(WaitForCalls); }

}  // namespace ios::cpu

// Measures what the engine does for traces in each call while no trace is
// recorded and no profiler is active. See benchmarks/tracing.py.
#include <chrono>
#include <cstdint>

#include "cc/engine/trace/call_trace.h"

namespace {

// Returns the nanoseconds of one execution of `body`.
template <typename Body>
double Nanoseconds(int64_t count, Body body) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) body();
  const std::chrono::duration<double, std::nano> time =
      std::chrono::steady_clock::now() - begin;
  return time.count() / count;
}

// Keeps the compiler from computing anything in advance.
void Barrier() { asm volatile("" ::: "memory"); }

}  // namespace

extern "C" {

// Times what each call does once: looking for observers.
double IdleCallNanoseconds(int64_t count) {
  return Nanoseconds(count, [] {
    const ios::TraceObservers observers;
    bool any = observers.any();
    asm volatile("" : "+r"(any)::"memory");
  });
}

// Times what each call does for each operator: comparing a null pointer twice.
double IdleTaskNanoseconds(int64_t count) {
  ios::CallTrace* trace = nullptr;
  return Nanoseconds(count, [&trace] {
    asm volatile("" : "+r"(trace));
    const ios::CallTrace::Task traced(trace, 0, 0);
    Barrier();
  });
}

double EmptyNanoseconds(int64_t count) {
  ios::CallTrace* trace = nullptr;
  return Nanoseconds(count, [&trace] {
    asm volatile("" : "+r"(trace));
    Barrier();
  });
}

}  // extern "C"

// The OpenMP entry points that oneDNN calls, run on the engine's lanes.
//
// oneDNN is built with GNU OpenMP and asks libgomp for threads. Our copy of
// oneDNN calls these functions under names with a prefix
// (cc/elf.py), so it never uses a libgomp, even if another library has loaded
// one. A primitive runs on the lane that calls it, without a second set of
// threads, nested teams, or threads that spin beside our workers. A thread
// outside of any lane gets a team of one thread, which OpenMP allows.

#include <cstdint>

#include "cc/engine/cpu/threads/lanes.h"

using ios::cpu::CurrentThread;
using ios::cpu::LanePool;
using ios::cpu::ThreadState;

namespace {

bool Alone(const ThreadState& thread) {
  return thread.nested > 0 || thread.team == nullptr;
}

}  // namespace

extern "C" {

int ios_omp_get_max_threads() {
  const ThreadState& thread = CurrentThread();
  if (!thread.lane || thread.team) return 1;
  return thread.at_once > 0 ? thread.at_once : thread.lane->size;
}

int ios_omp_get_num_threads() {
  const ThreadState& thread = CurrentThread();
  return Alone(thread) ? 1 : thread.team->pieces();
}

int ios_omp_get_thread_num() {
  const ThreadState& thread = CurrentThread();
  return Alone(thread) ? 0 : thread.index;
}

int ios_omp_in_parallel() { return CurrentThread().team != nullptr; }

void ios_GOMP_parallel_start(void (*function)(void*), void* data,
                             unsigned num_threads) {
  LanePool::StartParallel({function, data}, static_cast<int>(num_threads));
}

void ios_GOMP_parallel_end() { LanePool::EndParallel(); }

void ios_GOMP_barrier() {
  const ThreadState& thread = CurrentThread();
  if (Alone(thread)) return;
  LanePool::Barrier(thread.team);
}

// `for` loops with a static schedule. Without a chunk size, each thread gets
// one piece. With a chunk size, the threads get chunks in turn.
bool ios_GOMP_loop_static_start(long start, long end, long increment,
                                long chunk, long* piece_start,
                                long* piece_end) {
  ThreadState& thread = CurrentThread();
  const int size = ios_omp_get_num_threads(), index = ios_omp_get_thread_num();
  const long trips = increment > 0 ? (end - start + increment - 1) / increment
                                   : (start - end - increment - 1) / -increment;
  int64_t first, last;
  if (chunk == 0) {
    ios::cpu::Split(trips > 0 ? trips : 0, size, index, &first, &last);
    thread.loop_end = 0;
  } else {
    first = index * chunk;
    last = first + chunk < trips ? first + chunk : trips;
    thread.loop_next = first + size * chunk;
    thread.loop_end = trips;
  }
  thread.loop_start = start;
  thread.loop_increment = increment;
  thread.loop_chunk = chunk;
  if (first >= last) return false;
  *piece_start = start + first * increment;
  *piece_end = start + last * increment;
  return true;
}

bool ios_GOMP_loop_static_next(long* piece_start, long* piece_end) {
  ThreadState& thread = CurrentThread();
  if (thread.loop_chunk == 0 || thread.loop_next >= thread.loop_end) {
    return false;
  }
  const int64_t first = thread.loop_next;
  const int64_t last = first + thread.loop_chunk < thread.loop_end
                           ? first + thread.loop_chunk
                           : thread.loop_end;
  thread.loop_next += ios_omp_get_num_threads() * thread.loop_chunk;
  *piece_start = thread.loop_start + first * thread.loop_increment;
  *piece_end = thread.loop_start + last * thread.loop_increment;
  return true;
}

void ios_GOMP_loop_end_nowait() {}

}  // extern "C"

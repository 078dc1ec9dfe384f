// A team: the threads that run the pieces of one parallel section.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_TEAM_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_TEAM_H_

#include <cstdint>

#include "cc/engine/cpu/threads/waiting.h"

namespace ios::cpu {

class Crew;

// Threads [first, first + size) of a session's crew. One thread leads the lane
// and wakes the other threads.
struct Lane {
  Crew* crew = nullptr;
  int first = 0;
  int size = 1;
  // True while tasks are compiled for such a lane, outside of a session. The
  // calling thread then does all the work itself.
  bool planning = false;
};

// A function and its argument. The function is called once for every piece of a
// section; CurrentThread().index is the number of the piece.
struct Job {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};

// Runs one section after another. Threads take pieces when they are free, so a
// thread that lost its core delays only the piece that it has started. The
// leader runs any piece that no thread has started. Other threads (helpers) may
// arrive after the section has ended, because a team is never freed.
class alignas(kCacheLine) Team {
 public:
  // Opens a section. Called by the leader, which must then run piece 0 and call
  // Close().
  void Open(Job job, int pieces);
  // Runs pieces that no thread has started. Returns when all pieces are done.
  void Close();

  // Runs pieces until none is left. Helpers may call it at any time.
  void Help();

  // The number of pieces of the section that the calling thread is working on.
  int pieces() const { return pieces_; }

  // Returns when every piece of the section has called Barrier(). So each piece
  // needs its own thread.
  void Barrier();

  // The lane whose threads work on the section, and how many of these threads
  // (including the leader) were asked to help. The leader sets both members
  // before it opens the section.
  Lane lane;
  int called = 0;
  // Whether spare threads were woken for the pieces that have no thread. This
  // happens only if the section has a barrier.
  Atomic<bool> complete{false};

 private:
  // Takes the next piece that no thread has started. Returns false if none is
  // left.
  bool Take(int* piece);
  void Run(int piece);

  Job job_;
  int pieces_ = 1;
  uint32_t sections_done_ = 0;  // value of done_ before the section
  // Section number << 32 | number of pieces << 16 | next piece. A helper that
  // comes late for an earlier section finds another section or no piece left.
  // The next piece may exceed the number of pieces by the number of threads.
  alignas(kCacheLine) Atomic<uint64_t> tickets_{0};
  alignas(kCacheLine) Atomic<int> left_{0};  // pieces that are not done
  // Counts the sections whose last piece was finished by a helper.
  alignas(kCacheLine) Signal done_;
  alignas(kCacheLine) Atomic<int> arrived_{0};
  Signal passed_;  // counts barriers
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_TEAM_H_

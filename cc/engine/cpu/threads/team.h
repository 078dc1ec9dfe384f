// A team: the threads that run the pieces of one parallel section.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_TEAM_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_TEAM_H_

#include <atomic>
#include <cstdint>

#include "cc/engine/cpu/threads/waiting.h"

namespace ios::cpu {

class LanePool;

// Threads [first, first + size) of a pool, one of which leads and calls upon
// the others.
struct Lane {
  LanePool* pool = nullptr;
  int first = 0;
  int size = 1;
  // Compiling for such a lane, outside of a session: the calling thread does
  // all the work itself.
  bool planning = false;
};

// A function and its argument, called once for every piece of a section. Which
// piece is CurrentThread().index.
struct Job {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};

// Pieces are taken, not dealt: a thread without a core delays the piece that it
// has begun and no other, and the leader runs what nobody has begun. A team is
// used for one section after another and never freed, so that a helper may come
// too late.
class Team {
 public:
  // By the leader, who is to run piece 0, and then to close.
  void Open(Job job, int pieces);
  // Helps with the other pieces, and returns when all are done.
  void Close();

  // By helpers, at any time: runs pieces until none is left.
  void Help();

  // Of the section that the calling thread runs a piece of.
  int pieces() const { return pieces_; }

  // Returns when every piece of the section has called it: needs a thread for
  // each.
  void Barrier();

  // The threads it is for, and how many of them were called upon: the leader's
  // to set, before it opens a section.
  Lane lane;
  int called = 0;

 private:
  // Takes the next piece that nobody has begun.
  bool Take(int* piece);
  void Run(int piece);

  Job job_;
  int pieces_ = 1;
  // The section's number << 32 | pieces << 16 | the next one: a helper of a
  // former section finds another number, or nothing left.
  std::atomic<uint64_t> tickets_{0};
  std::atomic<int> left_{0};  // pieces that are not done
  Signal done_;               // the last of them
  std::atomic<int> arrived_{0};
  Signal passed_;  // barriers
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_TEAM_H_

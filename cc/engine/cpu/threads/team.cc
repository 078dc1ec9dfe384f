#include "cc/engine/cpu/threads/team.h"

#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {

void Team::Open(Job job, int pieces) {
  job_ = job;
  pieces_ = pieces;
  left_.store(pieces, std::memory_order_relaxed);
  arrived_.store(0, std::memory_order_relaxed);
  complete.store(false, std::memory_order_relaxed);
  sections_done_ = done_.value();
  const uint64_t section = (tickets_.load(std::memory_order_relaxed) >> 32) + 1;
  tickets_.store(section << 32 | static_cast<uint64_t>(pieces) << 16 | 1,
                 std::memory_order_release);
}

// If no piece is left, a thread only reads the tickets, because writing would
// take the cache line from other cores. A piece is taken by fetch_add, because
// a loop with compare_exchange would be repeated for each thread that takes a
// piece at the same time.
bool Team::Take(int* piece) {
  const auto take = [piece](uint64_t tickets) {
    *piece = static_cast<int>(tickets & 0xffff);
    return *piece < static_cast<int>(tickets >> 16 & 0xffff);
  };
  if (!take(tickets_.load(std::memory_order_acquire))) return false;
  MayDelay();
  return take(tickets_.fetch_add(1, std::memory_order_acq_rel));
}

void Team::Run(int piece) {
  ThreadState& thread = CurrentThread();
  thread.team = this;
  thread.index = piece;
  job_.function(job_.argument);
  thread.team = nullptr;
  thread.index = 0;
}

void Team::Help() {
  for (int piece; Take(&piece);) {
    Run(piece);
    MayDelay();
    if (left_.fetch_sub(1) == 1) done_.Advance();
  }
}

void Team::Close() {
  int mine = 1;
  for (int piece; Take(&piece); ++mine) Run(piece);
  if (left_.fetch_sub(mine) == mine) return;
  // done_ changes when a helper finishes the last piece.
  done_.Wait([this] { return done_.value() != sections_done_; });
}

void Team::Barrier() {
  const uint32_t passed = passed_.value();
  if (arrived_.fetch_add(1) == pieces_ - 1) {
    arrived_.store(0);
    passed_.Advance();
    return;
  }
  passed_.Wait([&] { return passed_.value() != passed; });
}

}  // namespace ios::cpu

#include "cc/engine/cpu/threads/team.h"

#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {

void Team::Open(Job job, int pieces) {
  job_ = job;
  pieces_ = pieces;
  left_.store(pieces, std::memory_order_relaxed);
  arrived_.store(0, std::memory_order_relaxed);
  complete.store(false, std::memory_order_relaxed);
  const uint64_t section = (tickets_.load(std::memory_order_relaxed) >> 32) + 1;
  tickets_.store(section << 32 | static_cast<uint64_t>(pieces) << 16 | 1,
                 std::memory_order_release);
}

bool Team::Take(int* piece) {
  uint64_t tickets = tickets_.load(std::memory_order_acquire);
  do {
    MayDelay();
    *piece = static_cast<int>(tickets & 0xffff);
    if (*piece >= static_cast<int>(tickets >> 16 & 0xffff)) return false;
  } while (!tickets_.compare_exchange_weak(tickets, tickets + 1,
                                           std::memory_order_acq_rel,
                                           std::memory_order_acquire));
  return true;
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
  done_.Wait([this] { return left_.load(std::memory_order_acquire) == 0; });
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

#include "cc/engine/cpu/threads/system.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <vector>

#include "cc/engine/cpu/threads/cores.h"

namespace ios::cpu {
namespace {

long Futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  static_assert(sizeof(*word) == sizeof(uint32_t));
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value,
                 nullptr, nullptr, 0);
}

const std::vector<int>& Nodes() {
  static const auto* const nodes =
      new std::vector<int>(NodesOfCores("/sys/devices/system/node"));
  return *nodes;
}

}  // namespace

int NodeOf(int core) {
  const std::vector<int>& nodes = Nodes();
  return core >= 0 && core < static_cast<int>(nodes.size()) ? nodes[core] : 0;
}

int NodeCount() {
  static const int count =
      Nodes().empty() ? 1
                      : *std::max_element(Nodes().begin(), Nodes().end()) + 1;
  return count;
}

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SleepWhile(std::atomic<uint32_t>* word, uint32_t value) {
  Futex(word, FUTEX_WAIT_PRIVATE, value);
}

void WakeAll(std::atomic<uint32_t>* word) {
  Futex(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

bool CoresOfThread(cpu_set_t* cores) {
  return sched_getaffinity(0, sizeof(*cores), cores) == 0;
}

bool CoresOfProcess(cpu_set_t* cores) {
  return sched_getaffinity(getpid(), sizeof(*cores), cores) == 0;
}

bool IsMainThread() { return syscall(SYS_gettid) == getpid(); }

}  // namespace ios::cpu

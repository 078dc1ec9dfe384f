#include "timeline.h"

#include <algorithm>
#include <utility>

#include "machine.h"

namespace fake {
namespace {

// Returns the number of threads that the GPU can run at the same time. 0 means
// no limit.
int64_t Room() { return Machine::Get().Option("sms") * kThreads; }

}  // namespace

void Timeline::Add(const NodePtr& node, double host_time,
                   const std::vector<NodePtr>& after) {
  // Handles all events up to this time, because work that is enqueued from now
  // on cannot change them.
  while (!events_.empty() && events_.top().time <= host_time) RunEvent();
  node->ready = host_time;
  for (const NodePtr& other : after) {
    if (other->ended) {
      node->ready = std::max(node->ready, other->end);
    } else {
      ++node->waits_for_end;
      other->followers.push_back(node);
    }
  }
  if (node->waits_for_end == 0) {
    Push(node->ready + node->work.latency, node, kStart);
  }
}

double Timeline::EndOf(const NodePtr& node) {
  while (!node->ended) RunEvent();
  return node->end;
}

void Timeline::Push(double time, const NodePtr& node, int64_t blocks) {
  events_.push({time, number_++, node, blocks});
}

void Timeline::RunEvent() {
  const Event event = events_.top();
  events_.pop();
  const NodePtr& node = event.node;
  if (event.blocks == kStart) return Start(node, event.time);
  if (event.blocks == kMemoryEnd) return Finish(node, event.time);
  node->running_blocks -= event.blocks;
  if (node->block_threads > 0) {
    Device* const device = &devices_[node->work.context];
    device->used -= event.blocks * node->block_threads;
    StartBlocks(device, event.time);
  }
  if (node->running_blocks > 0 || node->waiting_blocks > 0) return;
  if (event.time < node->memory_end) {
    return Push(node->memory_end, node, kMemoryEnd);
  }
  Finish(node, event.time);
}

void Timeline::Start(const NodePtr& node, double time) {
  const Work& work = node->work;
  node->memory_end = MemoryEnd(work, time);
  const double microseconds = work.microseconds * Slowness(work, time);
  const int64_t room = Room();
  if (room == 0 || work.blocks == 0) {
    node->running_blocks = 1;
    return Push(time + microseconds, node, 1);
  }
  // If no other work runs, the GPU runs `at_once` blocks at a time.
  node->block_threads = std::min(work.threads, room);
  const int64_t at_once = room / node->block_threads;
  node->waiting_blocks = work.blocks;
  node->block_microseconds =
      microseconds / ((work.blocks + at_once - 1) / at_once);
  Device* const device = &devices_[work.context];
  device->waiting.push_back(node);
  StartBlocks(device, time);
}

void Timeline::StartBlocks(Device* device, double time) {
  while (!device->waiting.empty()) {
    const NodePtr node = device->waiting.front();
    int64_t blocks = node->waiting_blocks;
    if (const int64_t room = Room(); room > 0) {
      blocks = std::min(blocks, (room - device->used) / node->block_threads);
    }
    if (blocks <= 0) return;
    device->used += blocks * node->block_threads;
    node->waiting_blocks -= blocks;
    node->running_blocks += blocks;
    Push(time + node->block_microseconds, node, blocks);
    if (node->waiting_blocks > 0) return;
    device->waiting.pop_front();
  }
}

void Timeline::Finish(const NodePtr& node, double time) {
  node->ended = true;
  node->end = time;
  for (const NodePtr& next : std::exchange(node->followers, {})) {
    next->ready = std::max(next->ready, time);
    if (--next->waits_for_end == 0) {
      Push(next->ready + next->work.latency, next, kStart);
    }
  }
}

// Returns when memory has served the accesses of work that starts now.
double Timeline::MemoryEnd(const Work& work, double start) {
  const Machine& machine = Machine::Get();
  const int64_t bandwidth = machine.Option("dram_bytes_per_us");
  if (bandwidth == 0) return start;
  Device* const device = &devices_[work.context];
  int64_t missing = 0;
  for (const Range& range : work.accesses) {
    missing +=
        device->cache.Use(range, machine.Option("l2_bytes", kCacheBytes));
  }
  if (missing == 0) return start;
  device->memory_free = std::max(device->memory_free, start) +
                        static_cast<double>(missing) / bandwidth;
  return device->memory_free;
}

// With the option "clock_ramp", a GPU that was idle for 0.1 s runs four times
// as slow for the first 50 ms.
double Timeline::Slowness(const Work& work, double start) {
  if (!Machine::Get().Option("clock_ramp") || work.microseconds == 0) return 1;
  if (start - idle_from_ > 1e5) busy_ = 0;
  const double slowness = busy_ < 5e4 * 0.99 && work.by_the_clock ? 4 : 1;
  busy_ += slowness * work.microseconds;
  idle_from_ = std::max(idle_from_, start + slowness * work.microseconds);
  return slowness;
}

}  // namespace fake

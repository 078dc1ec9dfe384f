#include "cc/engine/host/resource_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cc/engine/host/control_groups.h"

namespace ios {
namespace {

// The share of a sample's time that other processes may take. On a quiet
// machine, samples differ by about this share.
constexpr double kTolerated = 0.05;
// The mean wait for a core, in nanoseconds, from which waits may count as a
// disturbance. On a free core, a thread wakes up within microseconds. If
// another process has the core, the thread waits until that process's time
// slice ends.
constexpr int64_t kWakingNs = 100'000;
// A sample counts as disturbed if its processor time is below this share of its
// wall time. The share is at least 1 if some thread runs all the time.
constexpr double kLeastUse = 0.8;
constexpr double kClockChange = 1.1;
constexpr int64_t kStatIntervalNs = 10'000'000;  // the resolution of /proc/stat

int64_t Nanoseconds(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Returns the clock that counts a thread's processor time. Unlike the clock of
// the process, this clock includes the time since the last tick
// (clock_gettime(2), "dynamic clocks"; the kernel's CPUCLOCK_PERTHREAD_MASK and
// CPUCLOCK_SCHED).
clockid_t ThreadClock(int thread) {
  return static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6);
}

std::string ReadAll(int file) {
  std::string text(file < 0 ? 0 : 4096, '\0');
  const ssize_t size =
      text.empty() ? 0 : pread(file, text.data(), text.size(), 0);
  text.resize(std::max<ssize_t>(size, 0));
  return text;
}

// Returns how many nanoseconds a chain of dependent multiplications takes.
// Returns the minimum of several chains, because an interrupt may hit one of
// them.
double SpinNs() {
  constexpr int kMultiplications = 3000, kSpins = 3;
  int64_t least = INT64_MAX;
  for (int spin = 0; spin < kSpins; ++spin) {
    const int64_t start = Nanoseconds(CLOCK_MONOTONIC);
    volatile uint64_t seed = 3;
    uint64_t value = seed;
    for (int i = 0; i < kMultiplications; ++i) value = value * value + 1;
    seed = value;
    least = std::min(least, Nanoseconds(CLOCK_MONOTONIC) - start);
  }
  return static_cast<double>(least);
}

}  // namespace

bool IsDisturbed(const ResourceUse& before, const ResourceUse& after,
                 Threads threads) {
  const double wall = static_cast<double>(after.wall_ns - before.wall_ns);
  if (after.throttled_ns != before.throttled_ns) return true;
  if (after.stolen_ns - before.stolen_ns > kTolerated * wall) return true;
  if (before.spin_ns > 0 && after.spin_ns > 0) {
    const double slower = std::max(before.spin_ns, after.spin_ns);
    const double faster = std::min(before.spin_ns, after.spin_ns);
    if (slower > kClockChange * faster) return true;
  }
  if (threads == Threads::kCompeting) return false;
  if (threads != Threads::kWaiting &&
      after.cpu_ns - before.cpu_ns < kLeastUse * wall) {
    return true;
  }
  if (before.waited_ns < 0 || after.waited_ns < 0) {
    return threads == Threads::kOnePerCore && after.switches != before.switches;
  }
  const int64_t waited = after.waited_ns - before.waited_ns;
  const int64_t starts = std::max<int64_t>(after.starts - before.starts, 1);
  return waited > kTolerated * wall && waited > kWakingNs * starts;
}

ResourceMeter::ResourceMeter() {
  if (DIR* const tasks = opendir("/proc/self/task")) {
    while (const dirent* const entry = readdir(tasks)) {
      const int id = std::atoi(entry->d_name);
      if (id <= 0) continue;
      const std::string path =
          "/proc/self/task/" + std::string(entry->d_name) + "/schedstat";
      threads_.push_back({id, open(path.c_str(), O_RDONLY | O_CLOEXEC)});
    }
    closedir(tasks);
  }
  for (const ControlGroup& group :
       ControlGroups("/proc/self/cgroup", "/sys/fs/cgroup", "cpu")) {
    const std::string path = group.directory + "/cpu.stat";
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) groups_.push_back({file, group.version});
  }
  stat_ = open("/proc/stat", O_RDONLY | O_CLOEXEC);
}

ResourceMeter::~ResourceMeter() {
  for (const ThreadFile& thread : threads_) {
    if (thread.file >= 0) close(thread.file);
  }
  for (const GroupFile& group : groups_) close(group.file);
  if (stat_ >= 0) close(stat_);
}

ResourceUse ResourceMeter::Read() {
  ResourceUse use;
  use.spin_ns = SpinNs();
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) use.switches = usage.ru_nivcsw;
  use.throttled_ns = ReadThrottled();
  use.stolen_ns = ReadStolen(Nanoseconds(CLOCK_MONOTONIC));
  ReadThreads(&use);
  use.wall_ns = Nanoseconds(CLOCK_MONOTONIC);
  return use;
}

void ResourceMeter::ReadThreads(ResourceUse* use) const {
  for (const ThreadFile& thread : threads_) {
    use->cpu_ns += Nanoseconds(ThreadClock(thread.id));
    if (thread.file < 0) continue;
    char text[96];
    const ssize_t size = pread(thread.file, text, sizeof(text) - 1, 0);
    if (size <= 0) continue;  // the thread has ended
    text[size] = '\0';
    char* end = text;  // the fields: time computed, time waited, starts
    std::strtoll(end, &end, 10);
    use->waited_ns =
        std::max<int64_t>(use->waited_ns, 0) + std::strtoll(end, &end, 10);
    use->starts += std::strtoll(end, &end, 10);
  }
}

int64_t ResourceMeter::ReadThrottled() const {
  int64_t throttled = 0;
  for (const GroupFile& group : groups_) {
    throttled += ThrottledNs(ReadAll(group.file), group.version);
  }
  return throttled;
}

int64_t ResourceMeter::ReadStolen(int64_t now_ns) {
  // Reads /proc/stat rarely, because that takes long on a machine with many
  // cores.
  if (stolen_read_ns_ == 0 || now_ns - stolen_read_ns_ >= kStatIntervalNs) {
    stolen_read_ns_ = now_ns;
    stolen_ns_ = StolenNs(ReadAll(stat_), sysconf(_SC_CLK_TCK));
  }
  return stolen_ns_;
}

int64_t ThrottledNs(const std::string& cpu_stat, int version) {
  std::istringstream lines(cpu_stat);
  std::string name;
  for (int64_t value; lines >> name >> value;) {
    if (version == 1 && name == "throttled_time") return value;
    if (version == 2 && name == "throttled_usec") return value * 1000;
  }
  return 0;
}

int64_t StolenNs(const std::string& stat, int64_t ticks_per_second) {
  std::istringstream words(stat);
  std::string name;
  int64_t ticks = 0;
  words >> name;
  // The order of the numbers: user, nice, system, idle, iowait, irq, softirq,
  // steal.
  for (int i = 0; i < 8; ++i) {
    if (!(words >> ticks)) return 0;
  }
  return name == "cpu" && ticks_per_second > 0
             ? ticks * (1'000'000'000 / ticks_per_second)
             : 0;
}

}  // namespace ios

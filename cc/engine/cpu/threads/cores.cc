#include "cc/engine/cpu/threads/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "cc/engine/host/control_groups.h"

namespace ios::cpu {
namespace {

std::atomic<int> allowed_threads{0};  // 0: AllowThreads was not called yet

// Returns the number of cores in the affinity mask of the process. The calling
// thread may be pinned.
int CoresOfMask() {
  cpu_set_t set;
  return sched_getaffinity(getpid(), sizeof(set), &set) == 0
             ? CPU_COUNT(&set)
             : std::max(1u, std::thread::hardware_concurrency());
}

double Smaller(double a, double b) {
  return a <= 0 ? b : b <= 0 ? a : std::min(a, b);
}

// Returns quota / period, or 0 if one of them is missing. Both numbers may be
// in one file.
double Ratio(std::istream& quota_file, std::istream& period_file) {
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period && quota > 0 && period > 0
             ? quota / period
             : 0;
}

// Reads a quota of version 2, such as "150000 100000" or "max 100000".
double QuotaOf(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  return Ratio(file, file);
}

// Reads a quota of version 1. -1 means no limit.
double QuotaOfVersion1(const std::string& directory) {
  std::ifstream quota_file(directory + "/cpu.cfs_quota_us");
  std::ifstream period_file(directory + "/cpu.cfs_period_us");
  return Ratio(quota_file, period_file);
}

}  // namespace

double CoresOfQuota(const std::string& groups, const std::string& root) {
  double smallest = 0;
  for (const ControlGroup& group : ControlGroups(groups, root, "cpu")) {
    smallest = Smaller(smallest, group.version == 2
                                     ? QuotaOf(group.directory)
                                     : QuotaOfVersion1(group.directory));
  }
  return smallest;
}

int UsableCores() {
  int cores = CoresOfMask();
  const double quota = CoresOfQuota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota > 0) cores = std::min(cores, static_cast<int>(std::ceil(quota)));
  return std::max(1, cores);
}

void AllowThreads(int threads) {
  if (threads <= 0) return;
  if (threads >= CoresOfMask()) threads = INT_MAX;
  int known = allowed_threads.load();
  while (known < threads &&
         !allowed_threads.compare_exchange_weak(known, threads)) {
  }
}

int AllowedCores() {
  const int allowed = allowed_threads.load();
  return allowed > 0 ? std::min(allowed, UsableCores()) : UsableCores();
}

int WantedThreads() {
  const char* text = std::getenv("IOS_TF_NUM_THREADS");
  if (!text || !*text) return 0;
  char* end = nullptr;
  const long wanted = std::strtol(text, &end, 10);
  if (wanted <= 0 || *end) {
    std::fprintf(stderr,
                 "ios_tf: IOS_TF_NUM_THREADS=%s is not a positive number, so "
                 "the number of threads is %d\n",
                 text, UsableCores());
    return 0;
  }
  const long machine = MachineCores();
  if (wanted > machine) {
    std::fprintf(
        stderr,
        "ios_tf: IOS_TF_NUM_THREADS=%s exceeds the machine's number of cores, "
        "%ld, so the number of threads is %ld\n",
        text, machine, machine);
  }
  return static_cast<int>(std::min(wanted, machine));
}

std::vector<int> NodesOfCores(const std::string& root) {
  constexpr int kMostNodes = 1024;
  std::vector<int> nodes;
  int node = 0;
  for (int number = 0; number < kMostNodes; ++number) {
    std::ifstream file(root + "/node" + std::to_string(number) + "/cpulist");
    int first, last;
    bool any = false;
    // The file is a list such as "0-15,32-47".
    for (char separator = ','; separator == ',' && file >> first;) {
      last = first;
      separator = 0;
      if (file >> separator && separator == '-') {
        separator = 0;
        if (!(file >> last)) break;
        file >> separator;
      }
      if (first < 0 || last < first || last >= CPU_SETSIZE) break;
      if (static_cast<int>(nodes.size()) <= last) nodes.resize(last + 1);
      std::fill(nodes.begin() + first, nodes.begin() + last + 1, node);
      any = true;
    }
    if (any) ++node;
  }
  return nodes;
}

int MachineCores() {
  // A mask may have cores that the system's list lacks.
  const long configured = sysconf(_SC_NPROCESSORS_CONF);
  return static_cast<int>(std::max<long>({1, configured, UsableCores()}));
}

}  // namespace ios::cpu

// Detects whether other processes disturbed this process, from counters of the
// operating system.
#ifndef IOS_TF_CC_ENGINE_HOST_RESOURCE_USE_H_
#define IOS_TF_CC_ENGINE_HOST_RESOURCE_USE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ios {

// The values of the counters at one moment. Only the differences between the
// values at two moments have a meaning.
struct ResourceUse {
  int64_t wall_ns = 0;
  int64_t cpu_ns = 0;  // processor time of the process's threads
  // waited_ns: the time that threads were ready to run but had no core; below 0
  // if the system does not count it. A wait is added when it ends. starts: how
  // often a thread got a core.
  int64_t waited_ns = -1;
  int64_t starts = 0;
  int64_t switches = 0;      // involuntary context switches
  int64_t throttled_ns = 0;  // by a quota of the control group
  // Time that the hypervisor gave to other machines, in steps of 10 ms.
  int64_t stolen_ns = 0;
  // The duration of a fixed computation, which is longer if the core's clock is
  // slower; 0 if unknown.
  double spin_ns = 0;
};

// How the threads of this process behave during a sample, that is, between two
// readings of the counters.
enum class Threads {
  kOnePerCore,  // they compute, and do not compete with each other
  kMany,        // they compute, and there may be more of them than cores
  kWaiting,     // they may wait for another device
  kCompeting,   // they compute, and there are more of them than cores
};

// Returns whether other processes took more than a few percent of the time
// between the two moments, or the clock frequency of a core changed. If threads
// compete with each other, their waits for a core say nothing about other
// processes. In this case, only throttling, stolen time and the clock frequency
// are taken into account.
bool IsDisturbed(const ResourceUse& before, const ResourceUse& after,
                 Threads threads);

// Reads the counters of the threads that exist when the meter is created, which
// takes about ten microseconds. Counters that the system does not have keep
// their default values.
class ResourceMeter {
 public:
  ResourceMeter();
  ~ResourceMeter();
  ResourceMeter(const ResourceMeter&) = delete;
  ResourceMeter& operator=(const ResourceMeter&) = delete;

  ResourceUse Read();

 private:
  struct ThreadFile {
    int id;
    int file;  // schedstat
  };
  struct GroupFile {
    int file;  // cpu.stat
    int version;
  };

  void ReadThreads(ResourceUse* use) const;
  int64_t ReadThrottled() const;
  int64_t ReadStolen(int64_t now_ns);

  std::vector<ThreadFile> threads_;
  std::vector<GroupFile> groups_;
  int stat_ = -1;  // /proc/stat
  int64_t stolen_ns_ = 0, stolen_read_ns_ = 0;
};

// Returns the throttled time in nanoseconds that the text of a control group's
// file cpu.stat contains, or 0 if the text does not contain any. `version` is
// the version of the control group.
int64_t ThrottledNs(const std::string& cpu_stat, int version);

// Returns the stolen time of all cores in nanoseconds, from the text of
// /proc/stat.
int64_t StolenNs(const std::string& stat, int64_t ticks_per_second);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_RESOURCE_USE_H_

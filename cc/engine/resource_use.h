// Tells whether others disturbed what this process did: counters of the
// operating system, and the rule that judges them.
#ifndef IOS_TF_CC_ENGINE_RESOURCE_USE_H_
#define IOS_TF_CC_ENGINE_RESOURCE_USE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ios {

// Counters at one moment. Differences of two moments count.
struct ResourceUse {
  int64_t wall_ns = 0;
  int64_t cpu_ns = 0;  // that the process's threads computed
  // How long threads were ready to run and had no core, and how often a thread
  // got one. A wait is counted when it ends. Below 0: the system does not tell.
  int64_t waited_ns = -1;
  int64_t starts = 0;
  int64_t switches = 0;      // involuntary context switches
  int64_t throttled_ns = 0;  // by a quota of the control group
  // That the hypervisor gave to others, in steps of 10 ms.
  int64_t stolen_ns = 0;
  // How long a fixed computation takes: more when the clock is slower. 0:
  // unknown.
  double spin_ns = 0;
};

// What the threads of the process do between two moments.
enum class Threads {
  kOnePerCore,  // they compute, and do not compete with each other
  kMany,        // they compute, and there may be more of them than cores
  kWaiting,     // they may wait for another device
};

// Whether others took more than some percent of the time between two moments.
bool IsDisturbed(const ResourceUse& before, const ResourceUse& after,
                 Threads threads);

// Reads the counters of the threads that the process has when the meter is
// made. A read takes some ten microseconds. Counters that the system does not
// have stay as they are.
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

// What a control group of this version says of its throttled time in cpu.stat,
// in nanoseconds; 0 if it says nothing.
int64_t ThrottledNs(const std::string& cpu_stat, int version);

// The stolen time of all cores in /proc/stat, in nanoseconds.
int64_t StolenNs(const std::string& stat, int64_t ticks_per_second);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_RESOURCE_USE_H_

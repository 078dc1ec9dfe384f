// The number of cores that this process may use.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_CORES_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_CORES_H_

#include <string>
#include <vector>

namespace ios::cpu {

// Returns the number of cores in the process's affinity mask, or fewer if its
// control group has a smaller CPU quota. The quota is rounded up: 1.5 cores
// count as 2. At least 1.
int UsableCores();

// Limits AllowedCores() to `threads`, the number of threads that a program
// allows TensorFlow to use for one operator. If several calls set different
// limits (one per TensorFlow session), the largest limit applies. A limit of at
// least the number of cores in the process's affinity mask is probably the
// default of TensorFlow, so it does not count.
void AllowThreads(int threads);

// Returns UsableCores() or the limit set by AllowThreads(), whichever is
// smaller.
int AllowedCores();

// Returns the value of IOS_TF_NUM_THREADS. A value above MachineCores() is
// reduced to that number, with a warning. Returns 0 if the variable is not set,
// or if it is not a positive number (with a warning).
int WantedThreads();

// Returns the number of cores of the machine, including those that this process
// may not use. At least 1.
int MachineCores();

// Returns the CPU time, in cores, that control groups (version 1 or 2) allow a
// process. 0 means no limit. `groups` is the path of the process's file
// /proc/PID/cgroup, and `root` is /sys/fs/cgroup.
double CoresOfQuota(const std::string& groups, const std::string& root);

// Returns the NUMA node of each core, from the files node*/cpulist of `root`,
// which is /sys/devices/system/node. Nodes without cores are not counted, and
// cores that no file names are on node 0.
std::vector<int> NodesOfCores(const std::string& root);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_CORES_H_

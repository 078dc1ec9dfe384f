// How many cores this process may use.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_CORES_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_CORES_H_

#include <string>

namespace ios::cpu {

// The cores of the process's affinity mask, or fewer if its control group has a
// quota of less processor time: 1.5 cores' worth are 2. At least 1.
int UsableCores();

// IOS_TF_NUM_THREADS: at most the machine's cores, with a warning. 0: it says
// nothing, or no number, with a warning.
int WantedThreads();

// The cores of the machine, whoever may use them. At least 1.
int MachineCores();

// Processor time, in cores, that control groups (version 1 or 2) leave to the
// process whose /proc/PID/cgroup is `groups`, where `root` is /sys/fs/cgroup;
// 0: no limit.
double CoresOfQuota(const std::string& groups, const std::string& root);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_CORES_H_

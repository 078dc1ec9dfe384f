// The number of threads that tasks can use well.
#ifndef IOS_TF_CC_ENGINE_CPU_USEFUL_THREADS_H_
#define IOS_TF_CC_ENGINE_CPU_USEFUL_THREADS_H_

#include <vector>

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

// Returns the number of threads, at most `most`, with which a task takes the
// least time. A task for more threads than it needs also costs more in all,
// because its pieces are small: a crew of few threads runs them all.
int UsefulThreads(const TaskSpec& spec, int most);

// Returns the number of threads, at most `most`, that the stages can use.
int MostThreads(const std::vector<BoundStage>& stages, int most);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_USEFUL_THREADS_H_

// The number of threads that tasks can use well.
#ifndef IOS_TF_CC_ENGINE_CPU_USEFUL_THREADS_H_
#define IOS_TF_CC_ENGINE_CPU_USEFUL_THREADS_H_

#include <vector>

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

// Returns the number of threads, at most `most`, with which a task takes the
// least time. A task that is compiled for more threads also takes longer when
// it runs on few threads, because its work is cut into more and smaller pieces.
int UsefulThreads(const TaskSpec& spec, int most);

// Returns the number of threads, at most `most`, that the stages can use.
int MostThreads(const std::vector<BoundStage>& stages, int most);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_USEFUL_THREADS_H_

// Host memory: how much of it the process can still use. Linux grants more
// memory than exists and kills the process that then uses it.
#ifndef IOS_TF_CC_ENGINE_HOST_HOST_MEMORY_H_
#define IOS_TF_CC_ENGINE_HOST_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"

namespace ios {

// Returns ResourceExhausted if `bytes` of memory are not free. Small amounts
// are not checked.
Status CheckHostMemory(int64_t bytes);

// The number of bytes that are free or can be freed. It is read from the files
// of `proc` (/proc) and of this process's control groups (versions 1 and 2)
// below `root`. Any file may be missing. Without files, returns the largest
// int64_t.
int64_t FreeHostMemory(const std::string& proc, const std::string& root);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_HOST_MEMORY_H_

// Finds out how much memory of the host the process can still use. The engine
// checks this before large allocations, because Linux lets processes allocate
// more memory than exists, and later kills a process that uses too much.
#ifndef IOS_TF_CC_ENGINE_HOST_HOST_MEMORY_H_
#define IOS_TF_CC_ENGINE_HOST_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"

namespace ios {

// Returns ResourceExhausted if fewer than `bytes` bytes of memory are free.
// Below 256 MiB, always returns success.
Status CheckHostMemory(int64_t bytes);

// Returns the number of bytes that are free or that the kernel can free. Reads
// the files below `proc` (/proc), and the files of this process's control
// groups (versions 1 and 2) below `root`. Any file may be missing. Returns the
// largest int64_t if all are missing.
int64_t FreeHostMemory(const std::string& proc, const std::string& root);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_HOST_MEMORY_H_

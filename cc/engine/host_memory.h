// Host memory: how much of it may be asked for. Linux grants more than there
// is, and ends the process that then uses it.
#ifndef IOS_TF_CC_ENGINE_HOST_MEMORY_H_
#define IOS_TF_CC_ENGINE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"

namespace ios {

// ResourceExhausted if so many bytes are not free; not looked at for few of
// them.
Status CheckHostMemory(int64_t bytes);

// Bytes that are free or can be freed, by the files of a /proc and of the
// control groups (versions 1 and 2) below `root` that this process is in, of
// which each may be missing; or the largest number.
int64_t FreeHostMemory(const std::string& proc, const std::string& root);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_MEMORY_H_

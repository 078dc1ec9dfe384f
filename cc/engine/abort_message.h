// Says why a process ends that a library aborts.
#ifndef IOS_TF_CC_ENGINE_ABORT_MESSAGE_H_
#define IOS_TF_CC_ENGINE_ABORT_MESSAGE_H_

namespace ios {

// From now on abort() writes `message` to a descriptor, and ends the process
// with exit code 1. Libraries call abort() where they get no memory or threads,
// and some say nothing. Null: abort() ends the process by SIGABRT again.
void ExitOnAbort(const char* message, int descriptor);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_ABORT_MESSAGE_H_

// Says why a process ends that a library aborts.
#ifndef IOS_TF_CC_ENGINE_ABORT_MESSAGE_H_
#define IOS_TF_CC_ENGINE_ABORT_MESSAGE_H_

namespace ios {

// From now on abort() writes `message` to a descriptor, and ends the process
// with exit code 1. Where exit() ends this process with another code than 0,
// the message is written, too. Libraries call either of them where they get no
// memory or threads, and some say nothing. Null: both do as usual again.
void ExitOnAbort(const char* message, int descriptor);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_ABORT_MESSAGE_H_

// Prints a message when a library aborts the process.
#ifndef IOS_TF_CC_ENGINE_HOST_ABORT_MESSAGE_H_
#define IOS_TF_CC_ENGINE_HOST_ABORT_MESSAGE_H_

namespace ios {

// Makes abort() write `message` to the file `descriptor` and end the process
// with exit code 1. exit() with a code other than 0 also writes the message, in
// this process but not in its children. This is needed because libraries call
// abort() or exit() when they get no memory or no threads, and some of them
// print nothing. A null `message` restores the default behavior.
void ExitOnAbort(const char* message, int descriptor);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_ABORT_MESSAGE_H_

// OneDnnCall: keeps exit() from destroying oneDNN while threads call it.
#ifndef IOS_TF_CC_ENGINE_CPU_EXIT_GUARD_H_
#define IOS_TF_CC_ENGINE_CPU_EXIT_GUARD_H_

#include "cc/core/status.h"

namespace ios::cpu {

// A call that may enter oneDNN. exit() waits until the calls of other threads
// have ended, and then destroys oneDNN's static objects. A call that begins
// after that must not enter oneDNN: `status` says so. Calls may nest.
class OneDnnCall {
 public:
  OneDnnCall();
  ~OneDnnCall();
  OneDnnCall(const OneDnnCall&) = delete;
  OneDnnCall& operator=(const OneDnnCall&) = delete;

  Status status() const;

 private:
  bool entered_;
};

// Functions of oneDNN construct static objects at their first call, and exit()
// destroys what was constructed last first. So exit() must be told to wait
// anew after a call that may be the first of its kind.
void WaitForCallsAtExit();

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_EXIT_GUARD_H_

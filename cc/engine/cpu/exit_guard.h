// OneDnnCall: keeps exit() from destroying oneDNN while threads call it.
#ifndef IOS_TF_CC_ENGINE_CPU_EXIT_GUARD_H_
#define IOS_TF_CC_ENGINE_CPU_EXIT_GUARD_H_

#include "cc/core/status.h"

namespace ios::cpu {

// Marks a scope that may call oneDNN. exit() waits, for a limited time, until
// such scopes of other threads have ended; then it destroys oneDNN's static
// objects. A scope that begins after exit() has started must not call oneDNN:
// its status() is an error. Scopes may nest.
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

// Makes exit() wait for running calls before it destroys the static objects
// that exist now. Call this function again after each call of oneDNN that may
// be the first of its kind: oneDNN's functions construct static objects at
// their first call, and exit() destroys the latest objects first.
void WaitForCallsAtExit();

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_EXIT_GUARD_H_

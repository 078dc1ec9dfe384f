#include "cc/engine/host/abort_message.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace ios {
namespace {

// The signal and exit handlers use static memory, because they must neither
// allocate memory nor take a lock.
char abort_message[2048];
size_t abort_message_size = 0;  // 0: aborts and exits behave as usual
int abort_descriptor = STDERR_FILENO;
pid_t abort_process = 0;  // children of this process do not write at exit

void WriteMessage() {
  size_t done = 0;
  while (done < abort_message_size) {
    const ssize_t bytes = write(abort_descriptor, abort_message + done,
                                abort_message_size - done);
    if (bytes <= 0) break;
    done += bytes;
  }
}

void WriteAndExit(int number, siginfo_t* info, void*) {
  if (info->si_pid != getpid()) {  // another process sent the signal
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  WriteMessage();
  _exit(1);
}

void WriteAtExit(int status, void*) {
  if (status != 0 && getpid() == abort_process) WriteMessage();
}

}  // namespace

void ExitOnAbort(const char* message, int descriptor) {
  [[maybe_unused]] static const int registered = on_exit(WriteAtExit, nullptr);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  abort_message_size = 0;
  if (message) {
    action.sa_sigaction = WriteAndExit;
    action.sa_flags = SA_SIGINFO;
    abort_message_size = strnlen(message, sizeof(abort_message));
    memcpy(abort_message, message, abort_message_size);
    abort_descriptor = descriptor;
    abort_process = getpid();
  }
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace ios

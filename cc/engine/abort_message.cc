#include "cc/engine/abort_message.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace ios {
namespace {

// The handler may neither allocate memory nor take a lock.
char abort_message[2048];
size_t abort_message_size = 0;
int abort_descriptor = STDERR_FILENO;

void WriteAndExit(int number, siginfo_t* info, void*) {
  if (info->si_pid != getpid()) {  // another process asks for the signal
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  size_t done = 0;
  while (done < abort_message_size) {
    const ssize_t bytes = write(abort_descriptor, abort_message + done,
                                abort_message_size - done);
    if (bytes <= 0) break;
    done += bytes;
  }
  _exit(1);
}

}  // namespace

void ExitOnAbort(const char* message, int descriptor) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  if (message) {
    action.sa_sigaction = WriteAndExit;
    action.sa_flags = SA_SIGINFO;
    abort_message_size = strnlen(message, sizeof(abort_message));
    memcpy(abort_message, message, abort_message_size);
    abort_descriptor = descriptor;
  }
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace ios

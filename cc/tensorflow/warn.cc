#include "cc/tensorflow/warn.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/logging.h"

namespace ios::tf {
namespace {

std::atomic<bool> shows_warnings = false;

}  // namespace

void ShowWarnings() { shows_warnings = true; }

void Warn(Reason reason, absl::string_view text) {
  std::string printable;
  for (const char c : text) {
    // Bytes above ASCII can be control characters, too.
    if (absl::ascii_isprint(c)) {
      printable += c;
    } else {
      absl::StrAppend(&printable, "\\x", absl::Hex(c & 0xff, absl::kZeroPad2));
    }
  }
  const std::string line =
      absl::StrCat("ios_tf: ", printable, " [", ReasonCode(reason), "]");
  if (!shows_warnings) {
    LOG(WARNING) << line;
    return;
  }
  // A progress bar may be in the current line of the terminal.
  const char* const clear = isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  fputs(absl::StrCat(clear, line, "\n").c_str(), stderr);
}

}  // namespace ios::tf

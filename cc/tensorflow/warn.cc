#include "cc/tensorflow/warn.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/logging.h"

namespace ios::tf {

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
  LOG(WARNING) << "ios_tf: " << printable << " [" << ReasonCode(reason) << "]";
}

}  // namespace ios::tf

// Warnings for users, in TensorFlow's log.
#ifndef IOS_TF_CC_TENSORFLOW_WARN_H_
#define IOS_TF_CC_TENSORFLOW_WARN_H_

#include "absl/strings/string_view.h"
#include "cc/core/reason.h"

namespace ios::tf {

// Logs a one-line warning that ends with the code of its reason. Names, paths
// and messages in `text` may come from untrusted sources. So every byte that is
// not printable ASCII is escaped.
void Warn(Reason reason, absl::string_view text);

// Writes later warnings to standard error, whatever TensorFlow's log level is.
void ShowWarnings();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_WARN_H_

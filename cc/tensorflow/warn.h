// Warnings for users, in TensorFlow's log.
#ifndef IOS_TF_CC_TENSORFLOW_WARN_H_
#define IOS_TF_CC_TENSORFLOW_WARN_H_

#include "absl/strings/string_view.h"

namespace ios::tf {

// Logs a one-line warning. Names, paths and messages in `text` may come from
// untrusted sources. So every byte that is not printable ASCII is escaped.
void Warn(absl::string_view text);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_WARN_H_

// Warnings for users, in TensorFlow's log.
#ifndef IOS_TF_CC_TENSORFLOW_WARN_H_
#define IOS_TF_CC_TENSORFLOW_WARN_H_

#include "absl/strings/string_view.h"

namespace ios::tf {

// Logs a warning of one line. Names, paths and messages in it may be others':
// everything that a terminal obeys is escaped.
void Warn(absl::string_view text);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_WARN_H_

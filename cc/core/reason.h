// Reasons with stable codes, which reports and logs name.
#ifndef IOS_TF_CC_CORE_REASON_H_
#define IOS_TF_CC_CORE_REASON_H_

#include <string>

namespace ios {

enum class Reason {
#define IOS_REASON(number, Name, slug) k##Name = number,
#include "cc/core/reasons.def"
};

// Returns the code of a reason, such as "IOS012".
inline std::string ReasonCode(Reason reason) {
  const std::string digits = std::to_string(static_cast<int>(reason));
  return "IOS" + std::string(3 - digits.size(), '0') + digits;
}

}  // namespace ios

#endif  // IOS_TF_CC_CORE_REASON_H_

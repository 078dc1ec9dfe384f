// Parses untrusted JSON documents within limits.
#ifndef IOS_TF_CC_CORE_DOCUMENT_H_
#define IOS_TF_CC_CORE_DOCUMENT_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "cc/core/status.h"

namespace ios {

// The version of every JSON format of this project. Documents with another
// version are refused.
inline constexpr int kFormatVersion = 1;

// Parses the JSON object in `text`. Every document from outside goes through
// this function first. The function refuses deeply nested documents, because
// later code visits JSON values recursively. Error messages name the document
// by `what`.
StatusOr<nlohmann::json> ParseDocument(const std::string& text,
                                       const char* what);

// Returns a text from a document in quotes, for an error message of one line.
// Characters beyond the 200th are left out.
std::string Quoted(const std::string& text);

// Returns an error unless `value` is an object with "version": kFormatVersion.
Status CheckVersion(const nlohmann::json& value, const char* what);

// Stores `value` in `number` and returns true, if `value` is an integer that
// fits into the type Int. Returns false otherwise.
template <typename Int>
bool ReadInteger(const nlohmann::json& value, Int* number) {
  using Limits = std::numeric_limits<Int>;
  if (value.is_number_unsigned()) {
    const uint64_t found = value.get<uint64_t>();
    if (found > static_cast<uint64_t>(Limits::max())) return false;
    *number = static_cast<Int>(found);
    return true;
  }
  if (!value.is_number_integer()) return false;
  const int64_t found = value.get<int64_t>();
  if (found < Limits::min() || found > Limits::max()) return false;
  *number = static_cast<Int>(found);
  return true;
}

}  // namespace ios

#endif  // IOS_TF_CC_CORE_DOCUMENT_H_

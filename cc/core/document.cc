#include "cc/core/document.h"

#include <algorithm>

#include "cc/core/limits.h"

namespace ios {
namespace {

// Returns whether brackets are nested at most kMaxDocumentDepth deep. Runs
// before the parser, which then checks that the text is JSON.
bool IsShallow(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDocumentDepth) return false;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return true;
}

}  // namespace

StatusOr<nlohmann::json> ParseDocument(const std::string& text,
                                       const char* what) {
  if (text.size() > kMaxDocumentBytes) {
    return InvalidArgument(
        std::string(what) + " has " + std::to_string(text.size()) +
        " bytes, but the limit is " + std::to_string(kMaxDocumentBytes));
  }
  if (!IsShallow(text)) {
    return InvalidArgument(std::string(what) + " is nested too deep");
  }
  nlohmann::json value =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() || !value.is_object()) {
    return InvalidArgument(std::string(what) + " is not a JSON object");
  }
  return value;
}

std::string Quoted(const std::string& text) {
  constexpr size_t kMostCharacters = 200;
  std::string shown = text.substr(0, kMostCharacters);
  std::replace_if(
      shown.begin(), shown.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return "'" + shown + (text.size() > kMostCharacters ? "...'" : "'");
}

Status CheckVersion(const nlohmann::json& value, const char* what) {
  if (!value.is_object()) {
    return InvalidArgument(std::string(what) + " is not a JSON object");
  }
  const auto version = value.find("version");
  if (version == value.end() || *version != kFormatVersion) {
    const bool number = version != value.end() && version->is_number();
    return InvalidArgument(std::string(what) + " has version " +
                           (number ? version->dump() : "none") + ", expected " +
                           std::to_string(kFormatVersion));
  }
  return Status();
}

}  // namespace ios

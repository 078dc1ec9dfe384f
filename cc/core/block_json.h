// Blocks and operators as nlohmann::json values, for the files of cc/core that
// compose larger documents from them.
#ifndef IOS_TF_CC_CORE_BLOCK_JSON_H_
#define IOS_TF_CC_CORE_BLOCK_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "cc/core/block.h"
#include "cc/core/status.h"

namespace ios {

// The version of every JSON format of this project; another one is refused.
inline constexpr int kFormatVersion = 1;

nlohmann::json OperatorToJsonValue(const Operator& op);
nlohmann::json BlockToJsonValue(const Block& block);
StatusOr<Block> BlockFromJsonValue(const nlohmann::json& json);

// Parses `text`, which must be an object with "version": kFormatVersion. `what`
// names the document in errors.
StatusOr<nlohmann::json> ParseVersioned(const std::string& text,
                                        const char* what);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_BLOCK_JSON_H_

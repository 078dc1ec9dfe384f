// Computes SHA-256 hashes (FIPS 180-4), from which signatures of blocks are
// made.
#ifndef IOS_TF_CC_CORE_SHA256_H_
#define IOS_TF_CC_CORE_SHA256_H_

#include <string>

namespace ios {

std::string Sha256Hex(const std::string& data);  // 64 hexadecimal digits

}  // namespace ios

#endif  // IOS_TF_CC_CORE_SHA256_H_

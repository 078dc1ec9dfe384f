// Mutates the values and keys of JSON documents. libFuzzer's own mutations of
// the bytes are rarely valid JSON.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "cc/core/ops/attribute_values.h"
#include "cc/core/ops/attributes.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using nlohmann::json;

constexpr int64_t kNumbers[] = {
    0,          1,          -1,          2,         3,
    7,          255,        65536,       1 << 30,   (1 << 30) + 1,
    2147483647, 4294967296, -2147483648, INT64_MAX, INT64_MIN};
// Returns strings that have a meaning in blocks and schedules.
const std::vector<std::string>& Words() {
  static const auto* const kWords = [] {
    auto* words = new std::vector<std::string>{
        "SAME", "VALID", "concurrent", "merge", "split", "float32", "float16"};
    for (ios::OperatorType type : ios::kOperatorTypes) {
      words->push_back(ToString(type));
    }
    for (const auto& activation : ios::Activation::kAll) {
      words->push_back(activation.name);
    }
    const auto add_all = [&](const auto& names) {
      for (const auto& entry : names) words->push_back(entry.second);
    };
    add_all(ios::kAlgorithmNames);
    add_all(ios::kPoolNames);
    add_all(ios::kPadModeNames);
    add_all(ios::kFunctionNames);
    return words;
  }();
  return *kWords;
}

const std::vector<std::string>& Keys() {
  static const auto* const kKeys = [] {
    auto* keys = new std::vector<std::string>{
        "micro_batches", "batch_size", "inputs", "outputs",   "version",
        "alpha",         "parameters", "weight", "algorithms"};
    ios::VisitAttributes(
        [&](const char* key, auto, const ios::AttributeRules&) {
          keys->push_back(key);
        });
    return keys;
  }();
  return *kKeys;
}

class Mutation {
 public:
  explicit Mutation(unsigned seed) : random_(seed) {}

  void Apply(json* document) {
    std::vector<json*> values;
    Collect(document, &values);
    json* const value = values[Below(values.size())];
    switch (Below(8)) {
      case 0:
        *value = kNumbers[Below(std::size(kNumbers))];
        break;
      case 1:
        *value = Words()[Below(Words().size())];
        break;
      case 2:
        *value = *values[Below(values.size())];
        break;
      case 3:
        if (value->is_array()) value->push_back(*values[Below(values.size())]);
        break;
      case 4:
        if (value->is_object()) {
          const json other = *values[Below(values.size())];
          (*value)[Keys()[Below(Keys().size())]] = other;
        }
        break;
      case 5:
        if (value->is_structured() && !value->empty()) {
          value->erase(std::next(value->begin(), Below(value->size())));
        }
        break;
      case 6:
        if (value->is_number_integer()) {
          *value =
              value->get<int64_t>() / 2 + static_cast<int64_t>(Below(9)) - 4;
        } else if (value->is_array()) {
          std::shuffle(value->begin(), value->end(), random_);
        }
        break;
      default:
        if (value->is_boolean()) *value = !value->get<bool>();
    }
  }

  size_t Below(size_t n) { return random_() % n; }

 private:
  static void Collect(json* value, std::vector<json*>* values) {
    values->push_back(value);
    if (value->is_structured()) {
      for (json& item : *value) Collect(&item, values);
    }
  }

  std::mt19937 random_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t max_size, unsigned seed) {
  Mutation mutation(seed);
  json document = json::parse(data, data + size, nullptr, false);
  // Sometimes mutates the bytes instead.
  if (document.is_discarded() || mutation.Below(16) == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  for (size_t i = mutation.Below(3) + 1; i > 0; --i) mutation.Apply(&document);
  const std::string text =
      document.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

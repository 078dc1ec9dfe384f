// Mutates JSON as JSON: most of what libFuzzer alone makes of it is none.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using nlohmann::json;

constexpr int64_t kNumbers[] = {
    0,          1,          -1,          2,         3,
    7,          255,        65536,       1 << 30,   (1 << 30) + 1,
    2147483647, 4294967296, -2147483648, INT64_MAX, INT64_MIN};
const char* const kWords[] = {"conv2d",
                              "sepconv",
                              "pool",
                              "global_pool",
                              "concat",
                              "add",
                              "binary",
                              "matmul",
                              "softmax",
                              "pad",
                              "activation",
                              "scale",
                              "slice",
                              "reduce",
                              "normalize",
                              "channel_shuffle",
                              "resize",
                              "conv2d_transpose",
                              "depth_to_space",
                              "space_to_depth",
                              "lrn",
                              "SAME",
                              "VALID",
                              "concurrent",
                              "merge",
                              "split",
                              "winograd_2x2",
                              "winograd_4x4",
                              "gemm",
                              "rows",
                              "relu",
                              "clip",
                              "pow",
                              "max",
                              "avg",
                              "sum",
                              "float32",
                              "float16",
                              "like"};
const char* const kKeys[] = {
    "kernel",          "strides",       "dilations",  "padding",
    "filters",         "groups",        "multiplier", "bias",
    "residual",        "offset",        "size",       "output_size",
    "factors",         "operand",       "block_size", "depth_radius",
    "channel_padding", "micro_batches", "batch_size", "inputs",
    "outputs",         "version",       "like",       "keep_dims",
    "activation",      "alpha",         "epsilon",    "pad_mode",
    "swapped",         "parameters",    "weight",     "swaps",
    "algorithm",       "algorithms",    "pads_zeros"};

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
        *value = kWords[Below(std::size(kWords))];
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
          (*value)[kKeys[Below(std::size(kKeys))]] = other;
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
  // Now and then the bytes themselves.
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

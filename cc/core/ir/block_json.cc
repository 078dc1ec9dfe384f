#include "cc/core/ir/block_json.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/ir/operator_names.h"
#include "cc/core/limits.h"

namespace ios {
namespace {

using nlohmann::json;

// Reads the members of one JSON object. It remembers the first member with a
// wrong type or value, so that callers check only once.
class Reader {
 public:
  Reader(const json& object, std::string what)
      : object_(object), what_(std::move(what)) {
    if (!object.is_object()) Fail("is not an object");
  }

  const Status& status() const { return status_; }

  void Fail(const std::string& why) {
    if (status_.ok()) status_ = InvalidArgument(what_ + " " + why);
  }

  const json* Find(const char* key) const {
    if (!status_.ok()) return nullptr;
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }

  void Read(const char* key, std::string* value) {
    if (const json* j = Find(key)) {
      if (!j->is_string()) return Bad(key);
      *value = j->get<std::string>();
    }
  }
  void Read(const char* key, bool* value) {
    if (const json* j = Find(key)) {
      if (!j->is_boolean()) return Bad(key);
      *value = j->get<bool>();
    }
  }
  void Read(const char* key, float* value) {
    if (const json* j = Find(key)) {
      if (!IsFloat(*j)) return Bad(key);
      *value = j->get<float>();
    }
  }
  void Read(const char* key, int64_t* value) {
    if (const json* j = Find(key)) {
      if (!ReadInteger(*j, value)) return Bad(key);
    }
  }
  template <typename Int>
  void Read(const char* key, std::vector<Int>* value) {
    if (const json* j = Find(key)) {
      if (!j->is_array()) return Bad(key);
      value->clear();
      for (const json& item : *j) {
        Int number;
        if (!ReadInteger(item, &number)) return Bad(key);
        value->push_back(number);
      }
    }
  }
  void Read(const char* key, std::array<int64_t, 2>* value) {
    if (!Find(key)) return;
    std::vector<int64_t> items;
    Read(key, &items);
    if (items.size() != 2) return Bad(key);
    *value = {items[0], items[1]};
  }
  void Read(const char* key, std::array<float, 3>* value) {
    const json* j = Find(key);
    if (!j) return;
    if (!j->is_array() || j->size() != value->size()) return Bad(key);
    for (size_t i = 0; i < value->size(); ++i) {
      if (!IsFloat((*j)[i])) return Bad(key);
      (*value)[i] = (*j)[i].get<float>();
    }
  }
  template <typename Table, typename Enum>
  void Read(const char* key, const Table& table, Enum* value) {
    std::string text = NameIn(table, *value);
    Read(key, &text);
    for (const auto& [entry, name] : table) {
      if (text == name) {
        *value = entry;
        return;
      }
    }
    Fail("has the unknown " + std::string(key) + " '" + text + "'");
  }
  void Read(const char* key, Activation* value) {
    Activation::Kind kind = value->kind;
    Read(key, kActivationNames, &kind);
    *value = Activation(kind);
  }
  void Read(const char* key, Padding* value) {
    const json* j = Find(key);
    if (!j) return;
    if (*j == "SAME") {
      value->type = PaddingType::kSame;
    } else if (*j == "VALID") {
      value->type = PaddingType::kValid;
    } else {
      std::vector<int64_t> cells;
      Read(key, &cells);
      if (cells.size() != 4) return Bad(key);
      *value = {PaddingType::kExplicit, cells[0], cells[1], cells[2], cells[3]};
    }
  }

 private:
  static bool IsFloat(const json& value) {
    return value.is_number() &&
           std::abs(value.get<double>()) <= std::numeric_limits<float>::max();
  }
  void Bad(const char* key) {
    Fail("has a malformed '" + std::string(key) + "'");
  }

  const json& object_;
  std::string what_;
  Status status_;
};

json PaddingToJsonValue(const Padding& padding) {
  switch (padding.type) {
    case PaddingType::kSame:
      return "SAME";
    case PaddingType::kValid:
      return "VALID";
    case PaddingType::kExplicit:
      break;
  }
  return {padding.top, padding.bottom, padding.left, padding.right};
}

StatusOr<Operator> OperatorFromJsonValue(const json& value, int index) {
  Reader reader(value, "operator " + std::to_string(index));
  Operator op;
  if (!reader.Find("type")) reader.Fail("has no type");
  reader.Read("name", &op.name);
  reader.Read("type", kTypeNames, &op.type);
  reader.Read("inputs", &op.inputs);
  reader.Read("kernel", &op.kernel);
  reader.Read("strides", &op.strides);
  reader.Read("dilations", &op.dilations);
  reader.Read("padding", &op.padding);
  reader.Read("filters", &op.filters);
  reader.Read("groups", &op.groups);
  reader.Read("multiplier", &op.multiplier);
  reader.Read("bias", &op.bias);
  reader.Read("residual", &op.residual);
  reader.Read("pre_activation", &op.pre_activation);
  reader.Read("activation", &op.activation);
  reader.Read("alpha", &op.activation.alpha);
  reader.Read("beta", &op.activation.beta);
  reader.Read("algorithm", kAlgorithmNames, &op.algorithm);
  reader.Read("pool", kPoolNames, &op.pool);
  reader.Read("keep_dims", &op.keep_dims);
  reader.Read("pads_zeros", &op.pads_zeros);
  reader.Read("offset", &op.offset);
  reader.Read("size", &op.size);
  reader.Read("interpolation", kInterpolationNames, &op.interpolation);
  reader.Read("coordinates", kCoordinatesNames, &op.coordinates);
  reader.Read("output_size", &op.output_size);
  reader.Read("factors", &op.factors);
  reader.Read("like", &op.size_from_last_input);
  reader.Read("function", kFunctionNames, &op.function);
  reader.Read("operand", &op.operand);
  reader.Read("swapped", &op.constant_first);
  reader.Read("whole_images", &op.per_image);
  reader.Read("epsilon", &op.epsilon);
  reader.Read("pad_mode", kPadModeNames, &op.pad_mode);
  reader.Read("pad_value", &op.pad_value);
  reader.Read("channel_padding", &op.channel_padding);
  reader.Read("block_size", &op.block_size);
  reader.Read("depth_radius", &op.depth_radius);
  reader.Read("normalization", &op.normalization);
  if (!reader.status().ok()) return reader.status();
  return op;
}

}  // namespace

// Leaves out members that have their default, so that a new attribute does not
// change existing signatures.
json OperatorToJsonValue(const Operator& op) {
  const Operator defaults;
  json out = {{"type", ToString(op.type)}, {"inputs", op.inputs}};
  if (!op.name.empty()) out["name"] = op.name;
  if (op.kernel != defaults.kernel) out["kernel"] = op.kernel;
  if (op.strides != defaults.strides) out["strides"] = op.strides;
  if (op.dilations != defaults.dilations) out["dilations"] = op.dilations;
  if (op.padding.type != defaults.padding.type) {
    out["padding"] = PaddingToJsonValue(op.padding);
  }
  if (op.filters != defaults.filters) out["filters"] = op.filters;
  if (op.groups != defaults.groups) out["groups"] = op.groups;
  if (op.multiplier != defaults.multiplier) out["multiplier"] = op.multiplier;
  if (op.bias) out["bias"] = true;
  if (op.residual) out["residual"] = true;
  if (op.pre_activation != Activation::kNone) {
    out["pre_activation"] = NameIn(kActivationNames, op.pre_activation.kind);
  }
  if (op.activation != Activation::kNone) {
    const Activation usual(op.activation.kind);
    out["activation"] = NameIn(kActivationNames, usual.kind);
    if (op.activation.alpha != usual.alpha) out["alpha"] = op.activation.alpha;
    if (op.activation.beta != usual.beta) out["beta"] = op.activation.beta;
  }
  if (op.algorithm != defaults.algorithm) {
    out["algorithm"] = ToString(op.algorithm);
  }
  if (op.pool != defaults.pool) out["pool"] = NameIn(kPoolNames, op.pool);
  if (op.keep_dims) out["keep_dims"] = true;
  if (op.pads_zeros) out["pads_zeros"] = true;
  if (op.offset != 0) out["offset"] = op.offset;
  if (op.size != 0) out["size"] = op.size;
  if (op.interpolation != defaults.interpolation) {
    out["interpolation"] = NameIn(kInterpolationNames, op.interpolation);
  }
  if (op.coordinates != defaults.coordinates) {
    out["coordinates"] = NameIn(kCoordinatesNames, op.coordinates);
  }
  if (op.output_size != defaults.output_size) {
    out["output_size"] = op.output_size;
  }
  if (op.factors != defaults.factors) out["factors"] = op.factors;
  if (op.size_from_last_input) out["like"] = true;
  if (op.type == OperatorType::kBinary) {
    out["function"] = NameIn(kFunctionNames, op.function);
  }
  if (!op.operand.empty()) out["operand"] = op.operand;
  if (op.constant_first) out["swapped"] = true;
  if (op.per_image) out["whole_images"] = true;
  if (op.epsilon != 0.0f) out["epsilon"] = op.epsilon;
  if (op.pad_mode != defaults.pad_mode) {
    out["pad_mode"] = NameIn(kPadModeNames, op.pad_mode);
  }
  if (op.pad_value != 0.0f) out["pad_value"] = op.pad_value;
  if (op.channel_padding != defaults.channel_padding) {
    out["channel_padding"] = op.channel_padding;
  }
  if (op.block_size != 1) out["block_size"] = op.block_size;
  if (op.depth_radius != 0) out["depth_radius"] = op.depth_radius;
  if (op.type == OperatorType::kLrn) out["normalization"] = op.normalization;
  return out;
}

json BlockToJsonValue(const Block& block) {
  json operators = json::array();
  for (const Operator& op : block.operators) {
    operators.push_back(OperatorToJsonValue(op));
  }
  return {{"version", kFormatVersion},      {"name", block.name},
          {"dtype", ToString(block.dtype)}, {"inputs", block.inputs},
          {"operators", operators},         {"outputs", block.outputs}};
}

std::string ToJson(const Block& block) {
  // nlohmann::json sorts the keys, so the text is canonical. Names may hold any
  // bytes: dump() replaces invalid UTF-8 instead of throwing.
  return BlockToJsonValue(block).dump(-1, ' ', false,
                                      json::error_handler_t::replace);
}

StatusOr<Block> BlockFromJsonValue(const json& value) {
  IOS_RETURN_IF_ERROR(CheckVersion(value, "block"));
  Block block;
  Reader reader(value, "block");
  reader.Read("name", &block.name);
  std::string dtype = ToString(block.dtype);
  reader.Read("dtype", &dtype);
  reader.Read("outputs", &block.outputs);
  const json* inputs = reader.Find("inputs");
  const json* operators = reader.Find("operators");
  if (!inputs || !inputs->is_array()) reader.Fail("has no list of inputs");
  if (!operators || !operators->is_array())
    reader.Fail("has no list of operators");
  if (!reader.status().ok()) return reader.status();
  IOS_ASSIGN_OR_RETURN(block.dtype, DataTypeFromString(dtype));
  if (operators->size() > kMaxOperators || inputs->size() > kMaxOperators) {
    return InvalidArgument("block has more than " +
                           std::to_string(kMaxOperators) +
                           " operators or inputs");
  }
  for (const json& item : *inputs) {
    if (!item.is_array()) return InvalidArgument("block has a malformed input");
    Shape shape;
    for (const json& d : item) {
      int64_t size;
      if (!ReadInteger(d, &size)) {
        return InvalidArgument("block has a malformed input");
      }
      shape.push_back(size);
    }
    block.inputs.push_back(std::move(shape));
  }
  for (const json& item : *operators) {
    IOS_ASSIGN_OR_RETURN(Operator op,
                         OperatorFromJsonValue(item, block.operators.size()));
    block.operators.push_back(std::move(op));
  }
  IOS_RETURN_IF_ERROR(Validate(block));
  return block;
}

StatusOr<Block> BlockFromJson(const std::string& text) {
  IOS_ASSIGN_OR_RETURN(const json value, ParseDocument(text, "block"));
  return BlockFromJsonValue(value);
}

}  // namespace ios

#include "cc/core/ir/block_json.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/limits.h"
#include "cc/core/ops/attribute_values.h"
#include "cc/core/ops/attributes.h"

namespace ios {
namespace {

using nlohmann::json;

// Reads the members of one JSON object. The reader remembers the first member
// with a wrong type or value, so that callers ask for errors only once, at the
// end.
class Reader {
 public:
  Reader(const json& object, std::string what)
      : object_(object), what_(std::move(what)) {
    if (!object.is_object()) Fail("is not a JSON object");
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
  void Read(const char* key, std::vector<std::string>* value) {
    if (const json* j = Find(key)) {
      if (!j->is_array()) return Bad(key);
      for (const json& item : *j) {
        if (!item.is_string()) return Bad(key);
        value->push_back(item.get<std::string>());
      }
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
  void Read(const char* key, Activation* value) {
    std::string text = value->properties().name;
    Read(key, &text);
    for (const Activation::Properties& known : Activation::kAll) {
      if (text == known.name) {
        *value = Activation(known.kind);
        return;
      }
    }
    FailUnknown(key, text);
  }
  template <typename Enum>
  std::enable_if_t<std::is_enum_v<Enum>> Read(const char* key, Enum* value) {
    std::string text = NameOf(*value);
    Read(key, &text);
    for (const auto& [entry, name] : NamesOf(*value)) {
      if (text == name) {
        *value = entry;
        return;
      }
    }
    FailUnknown(key, text);
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
  void FailUnknown(const char* key, const std::string& text) {
    Fail("has the unknown " + std::string(key) + " " + Quoted(text));
  }
  void Bad(const char* key) {
    Fail("has a malformed '" + std::string(key) + "'");
  }

  const json& object_;
  std::string what_;
  Status status_;
};

// Reads the type of operators by its name.
void ReadType(Reader* reader, OperatorType* type) {
  std::string text = ToString(*type);
  reader->Read("type", &text);
  for (OperatorType known : kOperatorTypes) {
    if (text == ToString(known)) {
      *type = known;
      return;
    }
  }
  reader->Fail("has the unknown type " + Quoted(text));
}

StatusOr<Operator> OperatorFromJsonValue(const json& value, int index) {
  Reader reader(value, "operator " + std::to_string(index));
  Operator op;
  if (!reader.Find("type")) reader.Fail("has no member \"type\"");
  reader.Read("name", &op.name);
  ReadType(&reader, &op.type);
  reader.Read("inputs", &op.inputs);
  VisitAttributes([&](const char* key, auto member, const AttributeRules&) {
    reader.Read(key, &(op.*member));
  });
  reader.Read("alpha", &op.activation.alpha);
  reader.Read("beta", &op.activation.beta);
  if (!reader.status().ok()) return reader.status();
  return op;
}

// Returns whether two values of an attribute have the same JSON.
template <typename T>
bool AreEqual(const T& a, const T& b) {
  return a == b;
}
bool AreEqual(const Padding& a, const Padding& b) {
  return a.type == b.type && a.type != PaddingType::kExplicit;
}

template <typename T>
json ToJsonValue(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return NameOf(value);
  } else {
    return value;
  }
}
json ToJsonValue(const Activation& activation) {
  return activation.properties().name;
}
json ToJsonValue(const Padding& padding) {
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

StatusOr<std::vector<DataType>> DtypesFrom(
    const std::vector<std::string>& names) {
  std::vector<DataType> dtypes;
  for (const std::string& name : names) {
    IOS_ASSIGN_OR_RETURN(dtypes.emplace_back(), DataTypeFromString(name));
  }
  return dtypes;
}

}  // namespace

json DtypesToJsonValue(const std::vector<DataType>& dtypes) {
  json names = json::array();
  for (DataType dtype : dtypes) names.push_back(ToString(dtype));
  return names;
}

json OperatorToJsonValue(const Operator& op) {
  const Operator defaults;
  json out = {{"type", ToString(op.type)}, {"inputs", op.inputs}};
  if (!op.name.empty()) out["name"] = op.name;
  VisitAttributes([&](const char* key, auto member,
                      const AttributeRules& rules) {
    if (rules.always_in == op.type || !AreEqual(op.*member, defaults.*member)) {
      out[key] = ToJsonValue(op.*member);
    }
  });
  const Activation usual(op.activation.kind);
  if (op.activation.alpha != usual.alpha) out["alpha"] = op.activation.alpha;
  if (op.activation.beta != usual.beta) out["beta"] = op.activation.beta;
  return out;
}

json BlockToJsonValue(const Block& block) {
  json operators = json::array();
  for (const Operator& op : block.operators) {
    operators.push_back(OperatorToJsonValue(op));
  }
  json value = {{"version", kFormatVersion},      {"name", block.name},
                {"dtype", ToString(block.dtype)}, {"inputs", block.inputs},
                {"operators", operators},         {"outputs", block.outputs}};
  if (block.callers != 1) value["callers"] = block.callers;
  Block simple = block;
  SimplifyDtypes(&simple);
  if (!simple.input_dtypes.empty()) {
    value["input_dtypes"] = DtypesToJsonValue(simple.input_dtypes);
  }
  if (!simple.output_dtypes.empty()) {
    value["output_dtypes"] = DtypesToJsonValue(simple.output_dtypes);
  }
  return value;
}

std::string ToJson(const Block& block) {
  // The text is canonical, because nlohmann::json sorts the keys. Names may
  // contain any bytes, so dump() is told to replace invalid UTF-8 instead of
  // throwing.
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
  reader.Read("callers", &block.callers);
  std::vector<std::string> input_dtypes, output_dtypes;
  reader.Read("input_dtypes", &input_dtypes);
  reader.Read("output_dtypes", &output_dtypes);
  const json* inputs = reader.Find("inputs");
  const json* operators = reader.Find("operators");
  if (!inputs || !inputs->is_array()) reader.Fail("has no list \"inputs\"");
  if (!operators || !operators->is_array())
    reader.Fail("has no list \"operators\"");
  if (!reader.status().ok()) return reader.status();
  IOS_ASSIGN_OR_RETURN(block.dtype, DataTypeFromString(dtype));
  IOS_ASSIGN_OR_RETURN(block.input_dtypes, DtypesFrom(input_dtypes));
  IOS_ASSIGN_OR_RETURN(block.output_dtypes, DtypesFrom(output_dtypes));
  if (operators->size() > kMaxOperators || inputs->size() > kMaxOperators) {
    return InvalidArgument("block has more than " +
                           std::to_string(kMaxOperators) +
                           " operators or inputs");
  }
  for (const json& item : *inputs) {
    const Status malformed =
        InvalidArgument("input " + std::to_string(block.inputs.size()) +
                        " of the block is not a list of integers");
    if (!item.is_array()) return malformed;
    Shape shape;
    for (const json& d : item) {
      int64_t size;
      if (!ReadInteger(d, &size)) return malformed;
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

#include "cc/engine/random_parameters.h"

#include <iterator>
#include <utility>

#include "cc/engine/host/shared_objects.h"

namespace ios {

void FillRandom(std::mt19937* random, std::vector<float>* values) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (float& value : *values) value = uniform(*random);
}

StatusOr<Parameters> RandomParameters::Of(
    const PaddedBlock& padded, const std::vector<Shape>& shapes,
    const std::vector<std::vector<int>>& origin) {
  const Block& block = padded.block;
  Parameters parameters(block.operators.size());
  for (size_t i = 0; i < origin.size(); ++i) {
    const int at = padded.operators[i].back();
    const Operator& op = block.operators[at];
    const Shape& input = ShapeOf(block, shapes, op.inputs[0]);
    const Key key = {KindOf(block.dtype, op, input), origin[i]};
    if (parameters_.count(key) == 0) {
      IOS_ASSIGN_OR_RETURN(parameters_[key], Make(op, input, key));
    }
    parameters[at] = *parameters_[key];
  }
  return parameters;
}

void RandomParameters::ForgetMerged() {
  for (auto it = parameters_.begin(); it != parameters_.end();) {
    const bool is_merged = it->first.second.size() > 1;
    it = is_merged ? parameters_.erase(it) : std::next(it);
  }
}

StatusOr<std::shared_ptr<const RandomParameters::OfOne>> RandomParameters::Make(
    const Operator& op, const Shape& input, const Key& key) {
  const auto& [kind, origin] = key;
  if (origin.size() > 1) return MakeRandom(op, input);
  int64_t number = 0;
  for (const auto& entry : parameters_) {
    const auto& [other, of] = entry.first;
    number += other == kind && of.size() == 1;
  }
  return Shared(op, input, kind, number);
}

RandomParameters::Kind RandomParameters::KindOf(DataType dtype,
                                                const Operator& op,
                                                const Shape& input) {
  return {dtype, op.type, op.groups, WeightShapes(op, input)};
}

// Makes random parameters with which outputs have about the same magnitude as
// inputs.
StatusOr<std::shared_ptr<const RandomParameters::OfOne>>
RandomParameters::MakeRandom(const Operator& op, const Shape& input) {
  OfOne parameters;
  for (const Shape& shape : WeightShapes(op, input)) {
    std::vector<float> values(NumElements(shape));
    FillRandom(&random_, &values);
    const float fan_in = static_cast<float>(NumElements(shape)) / shape.back();
    for (float& value : values) value /= fan_in;
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<Parameter> parameter,
                         backend_->MakeParameter({values.data(), shape}));
    parameters.push_back(std::move(parameter));
  }
  return std::make_shared<const OfOne>(std::move(parameters));
}

// Returns the random parameters of operator number `number` of its kind (see
// Kind) in a block. All profilers share these parameters, so that blocks with
// the same kinds of operators need only one set.
StatusOr<std::shared_ptr<const RandomParameters::OfOne>>
RandomParameters::Shared(const Operator& op, const Shape& input,
                         const Kind& kind, int64_t number) {
  using SharedKey = std::tuple<Backend*, Kind, int64_t>;
  static auto* const all = new SharedObjects<SharedKey, const OfOne>;
  const SharedKey key = {backend_, kind, number};
  if (auto known = all->Find(key)) return known;
  IOS_ASSIGN_OR_RETURN(std::shared_ptr<const OfOne> made,
                       MakeRandom(op, input));
  return all->Put(key, std::move(made));
}

}  // namespace ios

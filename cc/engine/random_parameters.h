// RandomParameters: weights for operators that are measured.
#ifndef IOS_TF_CC_ENGINE_RANDOM_PARAMETERS_H_
#define IOS_TF_CC_ENGINE_RANDOM_PARAMETERS_H_

#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "cc/core/transforms/pad_channels.h"
#include "cc/engine/backend.h"
#include "cc/engine/compiled_block.h"

namespace ios {

// Between -1 and 1.
void FillRandom(std::mt19937* random, std::vector<float>* values);

// The parameters of one profiler's operators, and of what they are merged to:
// each has the same in all schedules.
class RandomParameters {
 public:
  explicit RandomParameters(Backend* backend) : backend_(backend) {}

  // Those of a padded block's operators. It was made of one whose operator i
  // comes from the profiler's operators origin[i].
  StatusOr<Parameters> Of(const PaddedBlock& padded,
                          const std::vector<Shape>& shapes,
                          const std::vector<std::vector<int>>& origin);
  // Drops those of merged operators.
  void ForgetMerged();

 private:
  using OfOne = std::vector<std::shared_ptr<Parameter>>;
  // What they are packed by: a type, its groups and the shapes of its weights.
  // A filter of two groups may have the shape of one of a single group.
  using Kind = std::tuple<OperatorType, int64_t, std::vector<Shape>>;
  // With the operators they come from: several for a merged one, its slices
  // aside.
  using Key = std::pair<Kind, std::vector<int>>;

  static Kind KindOf(const Operator& op, const Shape& input);

  StatusOr<std::shared_ptr<const OfOne>> Make(const Operator& op,
                                              const Shape& input,
                                              const Key& key);
  StatusOr<std::shared_ptr<const OfOne>> MakeRandom(const Operator& op,
                                                    const Shape& input);
  StatusOr<std::shared_ptr<const OfOne>> Shared(const Operator& op,
                                                const Shape& input,
                                                int64_t number);

  Backend* const backend_;
  std::mt19937 random_{1};
  std::map<Key, std::shared_ptr<const OfOne>> parameters_;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_RANDOM_PARAMETERS_H_

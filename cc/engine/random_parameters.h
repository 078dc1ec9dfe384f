// RandomParameters: random weights for the operators that are measured.
#ifndef IOS_TF_CC_ENGINE_RANDOM_PARAMETERS_H_
#define IOS_TF_CC_ENGINE_RANDOM_PARAMETERS_H_

#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "cc/core/transforms/pad_channels.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/compiled_block.h"

namespace ios {

// Fills `values` with random numbers between -1 and 1.
void FillRandom(std::mt19937* random, std::vector<float>* values);

// The parameters of one profiler's operators and of their merged convolutions.
// Each operator has the same parameters in all schedules.
class RandomParameters {
 public:
  explicit RandomParameters(Backend* backend) : backend_(backend) {}

  // Returns the parameters of a padded block's operators. Operator i of the
  // block before padding replaces the operators origin[i] of the profiler's
  // block.
  StatusOr<Parameters> Of(const PaddedBlock& padded,
                          const std::vector<Shape>& shapes,
                          const std::vector<std::vector<int>>& origin);
  // Frees the parameters of merged convolutions.
  void ForgetMerged();

 private:
  using OfOne = std::vector<std::shared_ptr<Parameter>>;
  // The properties that packing depends on: data type, operator type, groups
  // and the shapes of the weights. Groups are included because a filter with
  // two groups may have the same shape as a filter with one.
  using Kind = std::tuple<DataType, OperatorType, int64_t, std::vector<Shape>>;
  // The kind, and the operators that the parameters belong to: several for a
  // merged convolution, otherwise one.
  using Key = std::pair<Kind, std::vector<int>>;

  static Kind KindOf(DataType dtype, const Operator& op, const Shape& input);

  StatusOr<std::shared_ptr<const OfOne>> Make(const Operator& op,
                                              const Shape& input,
                                              const Key& key);
  StatusOr<std::shared_ptr<const OfOne>> MakeRandom(const Operator& op,
                                                    const Shape& input);
  StatusOr<std::shared_ptr<const OfOne>> Shared(const Operator& op,
                                                const Shape& input,
                                                const Kind& kind,
                                                int64_t number);

  Backend* const backend_;
  std::mt19937 random_{1};
  std::map<Key, std::shared_ptr<const OfOne>> parameters_;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_RANDOM_PARAMETERS_H_

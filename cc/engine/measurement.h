// How stages are measured.
#ifndef IOS_TF_CC_ENGINE_MEASUREMENT_H_
#define IOS_TF_CC_ENGINE_MEASUREMENT_H_

namespace ios {

// `warmup` unmeasured runs, then `repeat` measurements of `number` runs each;
// of what takes long fewer runs are enough for either.
struct Measurement {
  int warmup = 2;
  int number = 3;
  int repeat = 3;
  // Above 0: every stage runs as it would beside other groups, on its part of a
  // device of so many lanes (at most; see LaneCount).
  int lanes = 0;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_MEASUREMENT_H_

// How work is measured, and what one measurement gives.
#ifndef IOS_TF_CC_ENGINE_MEASUREMENT_H_
#define IOS_TF_CC_ENGINE_MEASUREMENT_H_

namespace ios {

// `warmup` unmeasured runs, then `repeat` samples of `number` runs each. Work
// that takes long has fewer runs of either kind.
struct Measurement {
  int warmup = 2;
  int number = 3;
  int repeat = 3;
  // Above 0: every stage runs as it would beside other groups, on its part of a
  // device of so many lanes (at most; see LaneCount).
  int lanes = 0;
};

struct Sample {
  double ms = 0;  // of one run
  // Whether something else than this process took time that the sample
  // contains: see IsDisturbed in resource_use.h.
  bool disturbed = false;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_MEASUREMENT_H_

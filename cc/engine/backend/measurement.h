// The settings of a measurement, and its result.
#ifndef IOS_TF_CC_ENGINE_BACKEND_MEASUREMENT_H_
#define IOS_TF_CC_ENGINE_BACKEND_MEASUREMENT_H_

namespace ios {

// `warmup` unmeasured runs, then `repeat` samples of `number` runs each. Slow
// work gets fewer runs of both kinds.
struct Measurement {
  int warmup = 2;
  int number = 3;
  int repeat = 3;
  // If above 0, every stage runs as if other groups ran beside it: on its part
  // of a device that this many lanes (at most LaneCount) share.
  int lanes = 0;
};

struct Sample {
  double ms = 0;  // of one run
  // Whether other processes took a part of the sample's time; see IsDisturbed
  // in resource_use.h.
  bool disturbed = false;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_MEASUREMENT_H_

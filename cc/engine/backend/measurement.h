// The settings of a measurement, and its result.
#ifndef IOS_TF_CC_ENGINE_BACKEND_MEASUREMENT_H_
#define IOS_TF_CC_ENGINE_BACKEND_MEASUREMENT_H_

namespace ios {

// A measurement makes `warmup` runs without timing, and then takes `repeat`
// samples, each of `number` runs. Slow work gets fewer runs per sample and
// fewer warm-up runs.
struct Measurement {
  int warmup = 2;
  int number = 3;
  int repeat = 3;
  // If above 0, the device is divided into this many lanes (at most LaneCount).
  // A stage with fewer groups leaves some lanes idle, as if other groups ran on
  // them.
  int lanes = 0;
};

struct Sample {
  double ms = 0;  // milliseconds of one run, the mean over all callers
  // Whether other processes disturbed the sample; see IsDisturbed in
  // resource_use.h and, for a GPU, SampleWork in measure_work.h.
  bool disturbed = false;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_MEASUREMENT_H_

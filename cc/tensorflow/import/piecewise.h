// Piecewise linear functions of one number, as activations that a graph writes
// with comparisons are: where their pieces end tells what samples cannot.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_PIECEWISE_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_PIECEWISE_H_

#include <functional>
#include <optional>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios::tf {

class Piecewise {
 public:
  struct Line {
    double slope = 0.0, shift = 0.0;
  };

  static Piecewise Constant(double value) { return Piecewise({0.0, value}); }
  static Piecewise Identity() { return Piecewise({1.0, 0.0}); }

  double At(double x) const;
  const std::vector<double>& ends() const { return ends_; }
  // Where it is `value`, within pieces that are not constant.
  std::vector<double> Where(double value) const;

  // `first` where `holds` of this function's value, elsewhere `second`. What
  // holds changes at `values` of it only.
  Piecewise Select(const std::vector<double>& values,
                   const std::function<bool(double)>& holds,
                   const Piecewise& first, const Piecewise& second) const;
  // None if it is not linear in every piece.
  static std::optional<Piecewise> Combine(BinaryFunction function,
                                          const Piecewise& a,
                                          const Piecewise& b);
  std::optional<Piecewise> Activate(const Activation& activation) const;

 private:
  explicit Piecewise(Line line) : lines_({line}) {}
  Piecewise() = default;

  Piecewise Scaled(double scale, double shift) const;
  const Line& LineAt(double x) const;

  std::vector<double> ends_;  // ascending
  std::vector<Line> lines_;   // one more
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_PIECEWISE_H_

// Piecewise linear functions of one number, such as activations that a graph
// writes with comparisons. Two such functions can be compared by samples near
// the ends of their pieces, because they are linear between these ends.
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
  // Returns the inputs at which the function equals `value`. Ignores constant
  // pieces.
  std::vector<double> Where(double value) const;

  // Returns the function that equals `first` at inputs where holds(value of
  // this function) is true, and `second` at other inputs. The result of holds()
  // may change only at `values`.
  Piecewise Select(const std::vector<double>& values,
                   const std::function<bool(double)>& holds,
                   const Piecewise& first, const Piecewise& second) const;
  // Combine() and Activate() return nullopt if the result is not linear in
  // every piece.
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
  std::vector<Line> lines_;   // one more than ends_
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_PIECEWISE_H_

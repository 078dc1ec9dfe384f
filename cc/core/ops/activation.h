// Activations: functions of one number, with at most two parameters.
#ifndef IOS_TF_CC_CORE_OPS_ACTIVATION_H_
#define IOS_TF_CC_CORE_OPS_ACTIVATION_H_

#include <array>
#include <string>
#include <tuple>

#include "cc/core/status.h"

namespace ios {

// See activation.def.
struct Activation {
  enum Kind {
#define IOS_ACTIVATION(kind, ...) k##kind,
#include "cc/core/ops/activation.def"
  };

  // A row of activation.def, without the columns `definition` and `cuda`.
  struct Properties {
    Kind kind;
    const char* name;
    int parameters;     // 0, 1 or 2
    float alpha, beta;  // the defaults
    const char* cuda;
    const char* tensorflow_op;  // "" if there is none
  };
  static constexpr Properties kAll[] = {
#define IOS_ACTIVATION(kind, name, parameters, alpha, beta, definition, cuda, \
                       op)                                                    \
  {k##kind, name, parameters, alpha, beta, cuda, op},
#include "cc/core/ops/activation.def"
  };
  static constexpr const Properties& Of(Kind kind) { return kAll[kind]; }

  Activation(Kind k = kNone) : Activation(k, Of(k).alpha, Of(k).beta) {}
  Activation(Kind k, float a, float b = 0) : kind(k), alpha(a), beta(b) {}

  const Properties& properties() const { return Of(kind); }

  Kind kind;
  float alpha, beta;  // 0 if the kind does not have them
};

inline bool operator==(const Activation& a, const Activation& b) {
  return a.kind == b.kind && a.alpha == b.alpha && a.beta == b.beta;
}
inline bool operator!=(const Activation& a, const Activation& b) {
  return !(a == b);
}
inline bool operator<(const Activation& a, const Activation& b) {
  return std::make_tuple(a.kind, a.alpha, a.beta) <
         std::make_tuple(b.kind, b.alpha, b.beta);
}

std::string ToString(const Activation& activation);  // "elu", "elu(0.5)"

// Checks that `alpha` and `beta` are legal for the kind. A parameter that the
// kind does not have must have its default value.
Status CheckActivation(const Activation& activation);

// Computes the activation in float64, with the relative error of the functions
// in <cmath>. NaN gives NaN.
double Exact(const Activation& activation, double v);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_ACTIVATION_H_

#include "cc/core/ops/shape.h"

#include <algorithm>

#include "cc/core/limits.h"

namespace ios {

int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i ? "," : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

Shape Broadcast(const Shape& x, const Shape& y) {
  if (x.size() != y.size()) return {};
  Shape result = x;
  for (size_t d = 0; d < x.size(); ++d) {
    if (x[d] != y[d] && x[d] != 1 && y[d] != 1) return {};
    if (x[d] == 1) result[d] = y[d];
  }
  return result;
}

Status CheckShape(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t d : shape) {
    if (d < 0) {
      return InvalidArgument("tensor " + ToString(shape) +
                             " has an unknown dimension");
    }
    elements = SaturatingProduct({elements, std::max<int64_t>(d, 1)});
    if (d > kMaxDimension || elements > kMaxElements) {
      return InvalidArgument(
          "tensor " + ToString(shape) +
          " has more elements, or a larger dimension, than the limit");
    }
  }
  return Status();
}

Status CheckTensor(const Shape& shape) {
  if (shape.size() != 4 && shape.size() != 2) {
    return InvalidArgument("input " + ToString(shape) +
                           " is not [N,H,W,C] or [N,C]");
  }
  return CheckShape(shape);
}

}  // namespace ios

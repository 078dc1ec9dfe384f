// DeviceTraits: what tasks of a device take and give, as one value.
#ifndef IOS_TF_CC_ENGINE_DEVICE_TRAITS_H_
#define IOS_TF_CC_ENGINE_DEVICE_TRAITS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"

namespace ios {

// A new device may leave all of it as it is.
struct DeviceTraits {
  using OfOperator = bool (*)(const Operator&);
  static bool Never(const Operator&) { return false; }

  // Whether tasks of an operator read a pitched view of their input as fast as
  // a dense one. Every task can read and write any view.
  OfOperator reads_pitched = Never;
  // Whether they take the pieces of a concat for an input, which then need not
  // be put together.
  OfOperator reads_pieces = Never;
  // Whether they take the terms of a sum for their first input, which then need
  // not be added up.
  OfOperator reads_terms = Never;
  // Whether they compute the 1x1 convolution that makes their first input, of
  // this shape, which then need not be stored.
  bool (*reads_products)(const Operator&, const Shape& input,
                         const Shape& output) = nullptr;
  // Whether pools apply an activation to their output.
  bool pools_activate = false;
  // To which a range of channels must be aligned for tasks to write it as fast
  // as a dense tensor.
  int64_t slice_bytes = 1;
  // Of which numbers of channels convolutions and matrix products are computed
  // without copies that have more, by data type.
  std::array<int64_t, 3> channel_multiples = {1, 1, 1};
  // The most that a stage runs on.
  int lanes = 1;
  // Whether a lane has a fixed part of the device, so that a group on one of
  // many lanes is slower than alone even if the others are idle.
  bool lanes_divide_device = false;

  int LanesFor(int groups) const { return std::min(groups, lanes); }
  // In elements.
  int64_t SliceAlignment(DataType dtype) const {
    return std::max<int64_t>(slice_bytes / SizeOf(dtype), 1);
  }
  int64_t ChannelMultiple(DataType dtype) const {
    return channel_multiples[static_cast<size_t>(dtype)];
  }
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_DEVICE_TRAITS_H_

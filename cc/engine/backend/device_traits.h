// DeviceTraits: the properties of a device and its tasks that planning needs.
#ifndef IOS_TF_CC_ENGINE_BACKEND_DEVICE_TRAITS_H_
#define IOS_TF_CC_ENGINE_BACKEND_DEVICE_TRAITS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/transforms/activations.h"

namespace ios {

// Properties of a device that block transforms depend on. The default values
// are valid for every device.
struct DeviceTraits {
  using OfOperator = bool (*)(const Operator&);
  static bool Never(const Operator&) { return false; }

  // Returns whether the operator's tasks read a pitched view of their input as
  // fast as a dense view (see TensorView). All tasks can read and write any
  // view; this is only about speed.
  OfOperator reads_pitched = Never;
  // Whether the tasks of all operators read pitched views as fast as dense
  // views if the block's type is bfloat16.
  bool bfloat16_reads_pitched = false;
  Absorbs absorbs = [](const Operator&, const Operator&, const Shape&,
                       const Shape&) { return false; };
  // Whether pools can apply an activation to their output.
  bool pools_activate = false;
  // If a range of channels starts at a multiple of this many bytes, tasks write
  // it as fast as a dense tensor.
  int64_t slice_bytes = 1;
  // One number per data type: if the number of channels of a tensor is a
  // multiple of it, convolutions and matrix products need no padded copy of the
  // tensor.
  std::array<int64_t, 3> channel_multiples = {1, 1, 1};
  // The maximum number of lanes that a stage runs on.
  int lanes = 1;
  // Whether each lane has a fixed part of the device. If so, a group that runs
  // on one of several lanes is slower than on the whole device, even if the
  // other lanes are idle.
  bool lanes_divide_device = false;
  // Whether the device multiplies bfloat16 numbers faster than float32.
  bool has_bfloat16 = false;
  // Whether compiling a task may measure implementations, which takes seconds
  // for a network.
  bool measures_when_compiling = false;
  // The number of bytes that all executions of a program may use. The program
  // keeps a few recent executions even if they use more.
  int64_t execution_bytes = int64_t{256} << 20;

  bool ReadsPitched(const Operator& op, DataType dtype) const {
    return (bfloat16_reads_pitched && dtype == DataType::kBFloat16) ||
           reads_pitched(op);
  }

  int LanesFor(int groups) const { return std::min(groups, lanes); }

  // Returns how many calls run at the same time if there are `callers` callers.
  // If each lane has a part of the device, only one call per lane can run, and
  // further calls wait in line.
  int64_t CallsAtOnce(int64_t callers) const {
    return lanes_divide_device ? std::min<int64_t>(callers, lanes) : callers;
  }
  // Returns `slice_bytes` as a number of elements of `dtype`.
  int64_t SliceAlignment(DataType dtype) const {
    return std::max<int64_t>(slice_bytes / SizeOf(dtype), 1);
  }
  int64_t ChannelMultiple(DataType dtype) const {
    return channel_multiples[static_cast<size_t>(dtype)];
  }
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_DEVICE_TRAITS_H_

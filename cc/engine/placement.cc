#include "cc/engine/placement.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cc/core/ir/readers.h"
#include "cc/core/transforms/activations.h"

namespace ios {
namespace {

// The largest number of inputs of an absorbed concat, and of tensors that one
// task reads. They are limited because a task stores the address of each
// tensor.
constexpr size_t kMaxPieces = 64, kMaxReadInPieces = 16;

// Returns whether `op` is a 1x1 convolution that multiplies every pixel of its
// only input.
bool IsProduct(const Operator& op) {
  return op.type == OperatorType::kConv2D && MayCompute(op, Algorithm::kGemm) &&
         op.strides == std::array<int64_t, 2>{1, 1} && !op.residual;
}

std::vector<bool> AbsorbedOperators(const Block& block,
                                    const std::vector<Shape>& shapes,
                                    const Readers& readers,
                                    const DeviceTraits& device) {
  const int n = block.operators.size();
  const auto absorbs = [&](int reader, int i) {
    return device.absorbs(block.operators[i], block.operators[reader],
                          shapes[i], shapes[reader]);
  };
  const auto sum_is_absorbed = [&](int i) {
    return block.operators[i].activation == Activation::kNone &&
           ReaderOfTerms(block, shapes, readers, device.absorbs, i) >= 0;
  };
  const auto concat_is_absorbed = [&](int i) {
    return block.operators[i].inputs.size() <= kMaxPieces &&
           !readers.outside[i] && !readers.operators[i].empty() &&
           std::all_of(readers.operators[i].begin(), readers.operators[i].end(),
                       [&](int reader) {
                         return block.operators[reader].inputs.size() <=
                                    kMaxReadInPieces &&
                                absorbs(reader, i);
                       });
  };
  const auto product_is_absorbed = [&](int i) {
    const int reader = readers.Only(i);
    return reader >= 0 && IsProduct(block.operators[i]) && absorbs(reader, i);
  };
  std::vector<bool> absorbed(n, false);
  for (int i = 0; i < n; ++i) {
    switch (block.operators[i].type) {
      case OperatorType::kConcat:
        absorbed[i] = concat_is_absorbed(i);
        break;
      case OperatorType::kConv2D:
        absorbed[i] = product_is_absorbed(i);
        break;
      default:
        absorbed[i] = sum_is_absorbed(i);
    }
  }
  return absorbed;
}

// Finds the tensors that can lie inside another tensor, the host.
class HostPlacer {
 public:
  HostPlacer(const Block& block, const std::vector<Shape>& shapes,
             const Readers& readers, const DeviceTraits& device)
      : block_(block),
        shapes_(shapes),
        readers_(readers),
        device_(device),
        alignment_(device.SliceAlignment(block.dtype)),
        placement_{std::vector<bool>(block.operators.size()),
                   std::vector<int>(block.operators.size(), -1),
                   std::vector<int64_t>(block.operators.size())} {}

  Placement Place(std::vector<bool> absorbed) && {
    placement_.absorbed = std::move(absorbed);
    for (size_t i = 0; i < block_.operators.size(); ++i) {
      if (placement_.absorbed[i]) continue;
      const OperatorType type = block_.operators[i].type;
      if (type == OperatorType::kConcat) PlaceInputsOf(i);
      if (type == OperatorType::kSlice) PlaceSlice(i);
    }
    return std::move(placement_);
  }

 private:
  void PlaceInputsOf(int concat) {
    const std::vector<int>& inputs = block_.operators[concat].inputs;
    int64_t channel = 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int source = SlicedWhole(concat, k);
      if (source >= 0 && FitsSlice(source, concat, channel)) {
        PlaceIn(concat, source, channel);
      }
      // If the source lies inside the concat's output, its slices need no copy.
      if (FitsSlice(inputs[k], concat, channel)) {
        PlaceIn(concat, inputs[k], channel);
      }
      channel += ShapeOf(block_, shapes_, inputs[k]).back();
    }
  }

  // Makes slice `i` a view of its input if possible. Its input must not be an
  // input of the block, because the caller owns that memory.
  void PlaceSlice(int i) {
    const Operator& op = block_.operators[i];
    const std::vector<int>& readers = readers_.operators[i];
    if (op.inputs[0] >= 0 && !readers_.outside[i] && ReadersTakePitch(i, -1) &&
        std::none_of(readers.begin(), readers.end(), [&](int reader) {
          return block_.operators[reader].type == OperatorType::kConcat;
        })) {
      PlaceIn(op.inputs[0], i, op.offset);
    }
  }

  void PlaceIn(int host, int op, int64_t channel) {
    placement_.host[op] = host;
    placement_.offset[op] = channel;
  }

  bool ReadersTakePitch(int i, int except) const {
    const std::vector<int>& readers = readers_.operators[i];
    return std::all_of(readers.begin(), readers.end(), [&](int reader) {
      return reader == except ||
             device_.ReadsPitched(block_.operators[reader], block_.dtype);
    });
  }

  // Returns whether `ref` can lie in its slice of the concat's output. A tensor
  // has only one place, so the concat must not read `ref` twice, and `ref` must
  // not lie in another concat's output. Outputs of the block must be dense, so
  // they cannot lie there.
  bool FitsSlice(int ref, int concat, int64_t channel) const {
    const std::vector<int>& inputs = block_.operators[concat].inputs;
    return ref >= 0 && !readers_.outside[ref] && placement_.host[ref] < 0 &&
           channel % alignment_ == 0 &&
           shapes_[concat].back() % alignment_ == 0 &&
           std::count(inputs.begin(), inputs.end(), ref) <= 1 &&
           ReadersTakePitch(ref, concat);
  }

  // Starting with input `first`, the concat's inputs may be consecutive slices
  // that together are the whole output of one operator, usually of a merged
  // convolution. Returns this operator, or -1 if there is none.
  int SlicedWhole(int concat, size_t first) const {
    const std::vector<int>& inputs = block_.operators[concat].inputs;
    int source = -1;
    int64_t end = 0;
    for (size_t k = first; k < inputs.size(); ++k) {
      if (inputs[k] < 0) return -1;
      const Operator& slice = block_.operators[inputs[k]];
      if (slice.type != OperatorType::kSlice || slice.inputs[0] < 0 ||
          (k > first && slice.inputs[0] != source) || slice.offset != end ||
          !FitsSlice(inputs[k], concat, 0)) {
        return -1;
      }
      source = slice.inputs[0];
      end += slice.size;
      if (end == shapes_[source].back()) return source;
    }
    return -1;
  }

  const Block& block_;
  const std::vector<Shape>& shapes_;
  const Readers& readers_;
  const DeviceTraits& device_;
  const int64_t alignment_;
  Placement placement_;
};

}  // namespace

Placement PlaceTensors(const Block& block, const std::vector<Shape>& shapes,
                       const DeviceTraits& device) {
  const Readers readers(block);
  return HostPlacer(block, shapes, readers, device)
      .Place(AbsorbedOperators(block, shapes, readers, device));
}

}  // namespace ios

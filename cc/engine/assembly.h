// Assembly: a block with a schedule of all of its operators, compiled for one
// set of shapes; what Program runs, and Profiler where it measures whole
// schedules.
#ifndef IOS_TF_CC_ENGINE_ASSEMBLY_H_
#define IOS_TF_CC_ENGINE_ASSEMBLY_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/backend.h"
#include "cc/engine/executable.h"

namespace ios {

// Where stages are split, each lane has executables of its own, one for each
// size of its micro-batches, and memory of its own for their intermediate
// tensors.
class Assembly {
 public:
  // `block` and `schedule` are those of LowerMerges.
  static StatusOr<std::unique_ptr<Assembly>> Create(
      Backend* backend, const Block& block, const Schedule& schedule,
      const Parameters& parameters);

  const std::vector<Shape>& shapes() const { return shapes_; }
  // Its tasks are the assembly's.
  const Work& work() const { return work_; }

 private:
  // Stages that share executables.
  struct Segment {
    int64_t micro_batches = 1;
    Schedule schedule;  // concurrent stages of the block's operators
  };

  Assembly(Backend* backend, const Block& block, const Parameters& parameters)
      : backend_(backend), block_(block), parameters_(parameters) {}

  std::vector<Segment> SegmentsOf(const Schedule& schedule) const;
  int64_t MicroBatches(const Stage& stage) const;
  // Gives the tensors that leave segments their places: `part` has those of
  // one.
  void PlaceOutputs(const PartOfBlock& part);
  Status Append(const Segment& segment, const PartOfBlock& part);
  StatusOr<Executable*> AddExecutable(const Block& block,
                                      const Schedule& schedule,
                                      const Parameters& parameters,
                                      int64_t border_alignment);
  // Adds the executable's tensors to the table, the inputs and outputs of the
  // part from an image on, its arena at an offset. Returns the first one's
  // index.
  int AddTensors(const Executable& executable, const PartOfBlock& part,
                 int64_t first_image, int64_t arena_offset);
  void UseArena(int64_t bytes) {
    work_.arena_bytes = std::max(work_.arena_bytes, bytes);
  }
  int64_t BytesOf(const Shape& shape) const {
    return NumElements(shape) * SizeOf(block_.dtype);
  }

  Backend* const backend_;
  const Block block_;
  const Parameters parameters_;
  std::vector<Shape> shapes_;
  std::vector<TensorLocation>
      outputs_;  // by operator, of those that leave segments
  int64_t outputs_bytes_ =
      0;  // of the arena: what leaves segments, not the block
  std::vector<std::unique_ptr<Executable>> executables_;
  Work work_;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_ASSEMBLY_H_

// The ops that this library adds to TensorFlow, with their shape functions.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cc/tensorflow/ops/program_json.h"
#include "cc/tensorflow/status_util.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ios::tf {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// Information about the inputs of a region whose batch sizes are unknown.
struct UnknownBatch {
  std::optional<DimensionHandle> dimension;
  bool only_one = true;  // all unknown batch sizes are the same
};

// Some sizes of the inputs may be unknown. The shape function infers the
// outputs' shapes in two trials, with different values for unknown sizes: a
// size of an output is known if both trials agree on it.
constexpr int kTrials = 2;

// Sets the sizes of the block's inputs: known sizes as they are, unknown sizes
// to values that differ between trials.
absl::Status ChooseSizes(InferenceContext* c, int trial, Block* block,
                         UnknownBatch* batch) {
  for (size_t k = 0; k < block->inputs.size(); ++k) {
    ShapeHandle input;
    TF_RETURN_IF_ERROR(
        c->WithRank(c->input(k), block->inputs[k].size(), &input));
    for (int d = 0; d < c->Rank(input); ++d) {
      const DimensionHandle dim = c->Dim(input, d);
      int64_t& size = block->inputs[k][d];
      if (c->ValueKnown(dim)) {
        size = c->Value(dim);
      } else if (d == 0) {
        batch->only_one =
            batch->only_one &&
            (!batch->dimension || batch->dimension->SameHandle(dim));
        batch->dimension = dim;
        size = 2 + trial;
      } else if (trial > 0 && d + 1 < c->Rank(input)) {
        size += 64;
      }
    }
  }
  return absl::OkStatus();
}

// Returns a shape with the sizes that are equal in both trials; other sizes are
// unknown.
ShapeHandle CommonShape(InferenceContext* c, const Shape& first,
                        const Shape& second, const UnknownBatch& batch) {
  std::vector<DimensionHandle> dims;
  for (size_t d = 0; d < first.size(); ++d) {
    if (first[d] == second[d]) {
      dims.push_back(c->MakeDim(first[d]));
    } else {
      dims.push_back(d == 0 && batch.only_one && first[d] == 2
                         ? *batch.dimension
                         : c->UnknownDim());
    }
  }
  return c->MakeShape(dims);
}

absl::Status RegionShape(InferenceContext* c) {
  std::string json;
  TF_RETURN_IF_ERROR(c->GetAttr("program", &json));
  StatusOr<RegionProgram> program = RegionProgramFromJson(json);
  if (!program.ok()) return ToAbsl(program.status());
  Block& block = program->block;
  const size_t parameters = program->parameters.size();
  if (block.inputs.size() + parameters !=
          static_cast<size_t>(c->num_inputs()) ||
      c->num_outputs() != static_cast<int>(block.outputs.size())) {
    return absl::InvalidArgumentError(
        "the op's number of inputs or outputs is not that of its program");
  }
  UnknownBatch batch;
  std::vector<std::vector<Shape>> results;
  for (int trial = 0; trial < kTrials; ++trial) {
    TF_RETURN_IF_ERROR(ChooseSizes(c, trial, &block, &batch));
    StatusOr<std::vector<Shape>> shapes = InferShapes(block);
    if (shapes.ok()) results.push_back(*std::move(shapes));
  }
  // If all batch sizes are known, sizes that do not fit each other are an
  // error.
  StatusOr<std::vector<Shape>> shapes = InferShapes(block);
  if (!shapes.ok() && !batch.dimension) return ToAbsl(shapes.status());
  for (int k = 0; k < c->num_outputs(); ++k) {
    const int op = block.outputs[k];
    c->set_output(k,
                  results.size() < kTrials
                      ? c->UnknownShape()
                      : CommonShape(c, results[0][op], results[1][op], batch));
  }
  return absl::OkStatus();
}

absl::Status LatencyShape(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &unused));
  int64_t repeat;
  TF_RETURN_IF_ERROR(c->GetAttr("repeat", &repeat));
  c->set_output(0, c->Vector(repeat));
  c->set_output(1, c->Vector(repeat));
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("IosRegion")
    .Input("inputs: N * T")
    .Input("parameters: P * T")
    .Output("outputs: M * T")
    .Attr("N: int >= 1")
    .Attr("P: int >= 0 = 0")
    .Attr("M: int >= 1")
    .Attr("program: string")
    .Attr("weights: list(tensor) >= 0")
    .Attr("T: {float, half, bfloat16} = DT_FLOAT")
    .Attr("device: {'cpu', 'gpu'} = 'cpu'")
    .Attr("watch: string = ''")
    .SetShapeFn([](InferenceContext* c) {
      return CatchExceptionsAbsl([c] { return RegionShape(c); });
    })
    .Doc(R"doc(
Runs a region of a graph on the IOS engine.

inputs: Dense [N,H,W,C] or [N,C] tensors. The engine compiles the region for
  sizes that are not in `program` when they are first used.
parameters: The variables that give weights. The op packs them in the first
  call, and again when their values have changed.
outputs: The outputs of the block.
program: JSON object with "block", "schedules" and "parameters". Each schedule
  has a "batch_size" and a number of "callers". A call uses the schedule with
  the nearest batch size and the nearest number of callers.
  "parameters" says how each variable becomes a weight.
weights: The weights of all operators as float32 tensors. For a weight that is
  a parameter, the tensor has the factors by which its filters are multiplied.
T: The type of inputs, parameters and outputs. The block may compute in another
  type.
device: The type of device that the region was built for.
watch: The files of the schedule cache that the schedule comes from, as JSON. The
  op takes new schedules from these files while the process runs. If the attribute
  is empty, the op keeps its schedules.
)doc");

REGISTER_OP("IosRegionReady")
    .Input("inputs: N * T")
    .Output("ready: bool")
    .Attr("N: int >= 1")
    .Attr("key: string")
    .Attr("T: {float, half, bfloat16} = DT_FLOAT")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Tells whether the engine can run a region, because all of its blocks have schedules.

inputs: The inputs of the region.
ready: If false, TensorFlow runs the nodes of the region.
key: Identifies the region: "key" of its attribute `watch`.
)doc");

REGISTER_OP("IosStageLatency")
    .Input("schedule: string")
    .Output("latencies: double")
    .Output("disturbed: bool")
    .Attr("program: string")
    .Attr("device: {'cpu', 'gpu'} = 'cpu'")
    .Attr("warmup: int >= 0 = 2")
    .Attr("number: int >= 1 = 3")
    .Attr("repeat: int >= 1 = 3")
    .Attr("lanes: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(LatencyShape)
    .Doc(R"doc(
Measures stages of a block on a device.

schedule: A schedule as JSON, in the format of schedule caches. One stage is a
  candidate of the dynamic program. The stages need not cover the block.
latencies: `repeat` latencies in milliseconds. Each latency is the mean of
  `number` runs, after `warmup` runs that are not measured.
disturbed: For each latency, whether another process took time from the
  measurement.
lanes: If above 0, each stage runs on one lane of a device that is divided into
  this number of lanes, as if groups ran on the other lanes at the same time.
program: The block as JSON.
device: The device to measure on. The op must be placed there.
)doc");

}  // namespace ios::tf

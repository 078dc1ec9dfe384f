// The ops this library adds to TensorFlow, with their shapes.
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

// The batch sizes of a region's inputs, as far as they are unknown.
struct UnknownBatch {
  std::optional<DimensionHandle> dimension;
  bool only_one = true;  // they are the same
};

// Batch, height and width may be other than in the program, or unknown: what
// two choices of them agree on holds for all.
constexpr int kTrials = 2;

// Gives the block's inputs the sizes that are known, and a trial's choices.
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

// The shape that the results of both trials agree on.
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
        "the program has another number of inputs or outputs");
  }
  UnknownBatch batch;
  std::vector<std::vector<Shape>> results;
  for (int trial = 0; trial < kTrials; ++trial) {
    TF_RETURN_IF_ERROR(ChooseSizes(c, trial, &block, &batch));
    StatusOr<std::vector<Shape>> shapes = InferShapes(block);
    if (shapes.ok()) results.push_back(*std::move(shapes));
  }
  // Sizes that do not fit each other are an error where all are known.
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
    .SetShapeFn([](InferenceContext* c) {
      return GuardedAbsl([c] { return RegionShape(c); });
    })
    .Doc(R"doc(
Runs a region of a graph on the IOS engine.

inputs: Dense [N,H,W,C] or [N,C] tensors; sizes other than those in `program` are
  compiled for on first use.
parameters: Weights that are variables. They are packed in the first call, and again
  when they have changed.
outputs: The block's outputs.
program: JSON object of "block" and its "schedules" by "batch_size": a batch runs by
  that of the nearest size; and of the "parameters", what becomes of them.
weights: The operators' weights in float32, flattened over operators; of parameters,
  the factors of their filters.
device: What the region was made for.
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

schedule: JSON, as schedule caches have it. One stage is a candidate of the dynamic
  program; its stages need not cover the block.
latencies: `repeat` latencies in milliseconds, each the mean of `number` runs after
  `warmup` unmeasured ones.
disturbed: whether another process took time that the latency contains, for each.
lanes: above 0, stages run as they would beside other groups, on their part of a
  device of so many lanes.
program: The block's JSON.
device: What to measure on; the op must be placed there.
)doc");

}  // namespace ios::tf

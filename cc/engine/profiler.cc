// Profiler: stage latencies of one block. All candidates share one executable, in
// which every tensor keeps its place, so that a candidate costs its tasks only.

#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "cc/core/merge.h"
#include "cc/engine/backend.h"
#include "cc/engine/executable.h"
#include "cc/engine/program.h"

namespace ios {
namespace {

void FillRandom(int64_t n, std::mt19937* random, float* data) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (int64_t i = 0; i < n; ++i) data[i] = uniform(*random);
}

// Random weights that keep the magnitude of what flows through.
StatusOr<std::vector<std::shared_ptr<Parameter>>> RandomParameters(
    Backend* backend, const Operator& op, const Shape& input,
    std::mt19937* random) {
  std::vector<std::shared_ptr<Parameter>> parameters;
  for (const Shape& shape : WeightShapes(op, input)) {
    std::vector<float> values(NumElements(shape));
    FillRandom(values.size(), random, values.data());
    const float fan_in =
        static_cast<float>(NumElements(shape)) / shape.back();
    for (float& value : values) value /= fan_in;
    IOS_ASSIGN_OR_RETURN(std::shared_ptr<Parameter> parameter,
                         backend->MakeParameter({values.data(), shape}));
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

class ProfilerImpl : public Profiler {
 public:
  ProfilerImpl(Backend* backend, const Block& block, std::vector<Shape> shapes)
      : backend_(backend), block_(block), shapes_(std::move(shapes)) {}

  Status Initialize() {
    IOS_ASSIGN_OR_RETURN(plain_, MakeBench(block_));
    return Status();
  }

  StatusOr<std::vector<double>> Measure(
      const std::vector<Stage>& stages,
      const Measurement& measurement) override {
    IOS_ASSIGN_OR_RETURN(auto latencies,
                         MeasureInterleaved({stages}, measurement));
    return latencies[0];
  }

  StatusOr<std::vector<std::vector<double>>> MeasureInterleaved(
      const std::vector<std::vector<Stage>>& candidates,
      const Measurement& measurement) override {
    if (measurement.warmup < 0 || measurement.number < 1 ||
        measurement.repeat < 1 || measurement.lanes < 0) {
      return InvalidArgument(
          "warmup and lanes must be at least 0, number and repeat at least 1");
    }
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::vector<BoundStage>> bound;
    for (const std::vector<Stage>& stages : candidates) {
      IOS_ASSIGN_OR_RETURN(std::vector<BoundStage> of_candidate,
                           BindCandidate(stages, measurement.lanes));
      bound.push_back(std::move(of_candidate));
    }
    std::vector<const std::vector<BoundStage>*> pointers;
    for (const auto& stages : bound) pointers.push_back(&stages);
    return backend_->Measure(pointers, tensors_, measurement);
  }

 private:
  // A compiled block with memory of its own, and where its tensors are in
  // tensors_.
  struct Bench {
    std::unique_ptr<Executable> executable;
    std::vector<std::shared_ptr<void>> memory;
    int first_tensor = 0;
  };

  StatusOr<std::unique_ptr<Bench>> MakeBench(const Block& block) {
    auto bench = std::make_unique<Bench>();
    IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
    Parameters parameters;
    for (const Operator& op : block.operators) {
      IOS_ASSIGN_OR_RETURN(
          auto of_operator,
          RandomParameters(backend_, op, ShapeOf(block, shapes, op.inputs[0]),
                           &random_));
      parameters.push_back(std::move(of_operator));
    }
    IOS_ASSIGN_OR_RETURN(
        bench->executable,
        Executable::Create(backend_, block, SequentialSchedule(block),
                           parameters, /*share_memory=*/false));
    const auto allocate = [&](int64_t bytes) -> StatusOr<char*> {
      IOS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                           backend_->Allocate(bytes));
      bench->memory.push_back(std::move(memory));
      return static_cast<char*>(bench->memory.back().get());
    };
    // By TensorLocation::Kind and index; the arena's index is 0.
    std::vector<char*> bases[3];
    for (const Shape& shape : block.inputs) {
      IOS_ASSIGN_OR_RETURN(char* const input, allocate(Bytes(shape)));
      bases[TensorLocation::kInput].push_back(input);
    }
    for (int out : block.outputs) {
      IOS_ASSIGN_OR_RETURN(char* const output, allocate(Bytes(shapes[out])));
      bases[TensorLocation::kOutput].push_back(output);
    }
    IOS_ASSIGN_OR_RETURN(char* const arena,
                         allocate(bench->executable->arena_bytes()));
    bases[TensorLocation::kArena].push_back(arena);

    bench->first_tensor = tensors_.size();
    const std::vector<TensorLocation> locations =
        bench->executable->Locations();
    const int num_inputs = block.inputs.size();
    for (size_t i = 0; i < locations.size(); ++i) {
      const TensorLocation& location = locations[i];
      void* const tensor =
          bases[location.kind][location.index] + location.offset;
      tensors_.push_back(tensor);
      // Candidates read what earlier operators would have written. Only tensors
      // that are whole buffers are filled; the rest lie inside of them.
      const int op = static_cast<int>(i) - num_inputs;
      if (op < 0 || bench->executable->OwnsBuffer(op)) {
        IOS_RETURN_IF_ERROR(
            UploadRandom(op < 0 ? block.inputs[i] : shapes[op], tensor));
      }
    }
    return bench;
  }

  int64_t Bytes(const Shape& shape) const {
    return NumElements(shape) * SizeOf(block_.dtype);
  }

  Status UploadRandom(const Shape& shape, void* device) {
    std::vector<float> values(NumElements(shape));
    FillRandom(values.size(), &random_, values.data());
    std::vector<char> converted(Bytes(shape));
    ConvertFromFloat(values.data(), values.size(), block_.dtype,
                     converted.data());
    return backend_->Upload(converted.data(), converted.size(), device);
  }

  StatusOr<std::vector<BoundStage>> BindOn(Bench* bench,
                                           const std::vector<Stage>& stages,
                                           int lanes) {
    IOS_ASSIGN_OR_RETURN(std::vector<BoundStage> bound,
                         bench->executable->Bind(stages, lanes));
    for (BoundStage& stage : bound) {
      for (auto& group : stage.groups) {
        for (BoundTask& task : group) {
          for (int& input : task.inputs) input += bench->first_tensor;
          task.output += bench->first_tensor;
        }
      }
    }
    return bound;
  }

  // A merge stage is a small block of its own: the merged convolution and its
  // slices, which whoever reads them finds dense.
  StatusOr<Bench*> MergeBench(const std::vector<int>& ops) {
    std::unique_ptr<Bench>& bench = merges_[ops];
    if (!bench) {
      IOS_ASSIGN_OR_RETURN(MergePlan plan, PlanMerge(block_, ops));
      Block block;
      block.dtype = block_.dtype;
      block.inputs = {ShapeOf(block_, shapes_, plan.merged.inputs[0])};
      plan.merged.inputs = {-1};
      block.operators.push_back(plan.merged);
      for (const MergePlan::Part& part : plan.parts) {
        Operator slice;
        slice.type = OperatorType::kSlice;
        slice.inputs = {0};
        slice.offset = part.channel;
        slice.size = block_.operators[part.op].filters;
        block.outputs.push_back(block.operators.size());
        block.operators.push_back(slice);
      }
      IOS_ASSIGN_OR_RETURN(bench, MakeBench(block));
    }
    return bench.get();
  }

  StatusOr<std::vector<BoundStage>> BindCandidate(
      const std::vector<Stage>& stages, int lanes) {
    std::vector<BoundStage> bound;
    for (const Stage& stage : stages) {
      for (const std::vector<int>& group : stage.groups) {
        for (int op : group) {
          if (op < 0 || op >= static_cast<int>(block_.operators.size())) {
            return InvalidArgument("there is no operator " +
                                   std::to_string(op) + " in a block of " +
                                   std::to_string(block_.operators.size()));
          }
        }
      }
      std::vector<BoundStage> part;
      if (stage.strategy == Strategy::kMerge) {
        if (stage.groups.size() != 1) {
          return InvalidArgument("a merge stage must have one group");
        }
        IOS_ASSIGN_OR_RETURN(Bench* const bench, MergeBench(stage.groups[0]));
        Stage all = {Strategy::kConcurrent, {{}}};
        for (size_t i = 0; i <= stage.groups[0].size(); ++i) {
          all.groups[0].push_back(i);
        }
        IOS_ASSIGN_OR_RETURN(part, BindOn(bench, {all}, lanes));
      } else {
        IOS_ASSIGN_OR_RETURN(part, BindOn(plain_.get(), {stage}, lanes));
      }
      for (BoundStage& s : part) bound.push_back(std::move(s));
    }
    return bound;
  }

  Backend* const backend_;
  const Block block_;
  const std::vector<Shape> shapes_;
  std::mutex mutex_;
  std::mt19937 random_{1};
  std::vector<void*> tensors_;  // of all benches
  std::unique_ptr<Bench> plain_;
  std::map<std::vector<int>, std::unique_ptr<Bench>> merges_;
};

}  // namespace

StatusOr<std::unique_ptr<Profiler>> Profiler::Create(
    const Block& block, const std::string& device) {
  IOS_ASSIGN_OR_RETURN(Backend* const backend, GetBackend(device));
  IOS_RETURN_IF_ERROR(Validate(block));
  IOS_RETURN_IF_ERROR(backend->Supports(block.dtype));
  IOS_ASSIGN_OR_RETURN(std::vector<Shape> shapes, InferShapes(block));
  auto profiler =
      std::make_unique<ProfilerImpl>(backend, block, std::move(shapes));
  IOS_RETURN_IF_ERROR(profiler->Initialize());
  return std::unique_ptr<Profiler>(std::move(profiler));
}

}  // namespace ios

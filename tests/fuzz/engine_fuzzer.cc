// Runs random blocks with small shapes by random legal schedules, also for
// batch sizes other than the scheduled one. The engine's outputs must equal the
// outputs that reference.h computes by the operators' definitions.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "cc/engine/program.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/random_block.h"
#include "tests/fuzz/reference.h"

namespace ios::fuzz {
namespace {

Tensor RandomTensor(const Shape& shape, uint32_t* state, float scale) {
  Tensor tensor{shape, {}};
  for (int64_t i = NumElements(shape); i > 0; --i) {
    *state = *state * 1664525 + 1013904223;
    tensor.data.push_back(scale *
                          (static_cast<int32_t>(*state >> 8) / 8388608.0f - 1));
  }
  return tensor;
}

std::vector<Tensor> Run(Program* program, const std::vector<Tensor>& inputs) {
  std::vector<Shape> shapes;
  std::vector<TensorArray> arrays;
  for (const Tensor& input : inputs) {
    shapes.push_back(input.shape);
    arrays.push_back({input.data.data(), input.shape});
  }
  const StatusOr<std::vector<Shape>> found = program->OutputShapes(shapes);
  if (!found.ok()) return {};
  std::vector<Tensor> results;
  std::vector<void*> outputs;
  for (const Shape& shape : *found) {
    results.push_back({shape, std::vector<float>(NumElements(shape), 1e30f)});
  }
  for (Tensor& result : results) outputs.push_back(result.data.data());
  const Status status = program->Run(arrays, outputs, nullptr);
  if (!status.ok()) return {};
  return results;
}

bool AllModerate(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return std::all_of(tensor.data.begin(), tensor.data.end(),
                       [](float x) { return std::abs(x) < 1e15f; });
  });
}

// Checks that each output equals the expected one up to rounding, relative to
// the largest expected value of the output.
void Compare(const std::vector<Tensor>& found,
             const std::vector<Tensor>& expected, const Block& block,
             const Schedule& schedule) {
  FUZZ_CHECK(found.size() == expected.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    FUZZ_CHECK(found[k].shape == expected[k].shape);
    float most = 1e-3f;
    for (float x : expected[k].data) most = std::max(most, std::abs(x));
    for (size_t i = 0; i < expected[k].data.size(); ++i) {
      const float a = found[k].data[i], b = expected[k].data[i];
      const bool same = std::abs(a - b) <= 2e-3f * most;
      if (same) continue;
      std::fprintf(stderr, "output %zu, element %zu: %g, not %g\n%s\n%s\n", k,
                   i, a, b, ToJson(block).c_str(), ToJson(schedule).c_str());
      FUZZ_CHECK(same);
    }
  }
}

}  // namespace
}  // namespace ios::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ios;
  using namespace ios::fuzz;
  Bytes bytes(data, size);
  Block block = RandomBlock(&bytes);
  if (block.operators.empty()) return 0;
  const Status valid = Validate(block);
  if (!valid.ok()) std::fprintf(stderr, "%s\n", valid.message().c_str());
  FUZZ_CHECK(valid.ok());
  const StatusOr<std::vector<Shape>> shapes = InferShapes(block);
  uint32_t state = static_cast<uint32_t>(size) * 2654435761u + 1;
  std::vector<std::vector<Tensor>> values;
  Weights weights;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const Shape input = InputShapes(block, *shapes, i)[0];
    values.emplace_back();
    for (const Shape& shape : WeightShapes(block.operators[i], input)) {
      const int64_t fan_in =
          NumElements(shape) / std::max<int64_t>(shape.back(), 1);
      const float scale = 1 / std::sqrt(std::max<float>(fan_in, 1));
      values.back().push_back(RandomTensor(shape, &state, scale));
    }
    weights.emplace_back();
    for (const Tensor& value : values.back()) {
      weights.back().push_back({value.data.data(), value.shape});
    }
  }
  const Schedule schedule = RandomSchedule(block, &bytes);
  const StatusOr<std::unique_ptr<Program>> program =
      Program::Create(block, {{LoadOf(block), schedule}}, weights, "cpu");
  const StatusOr<std::unique_ptr<Program>> sequential = Program::Create(
      block, {{LoadOf(block), SequentialSchedule(block)}}, weights, "cpu");
  FUZZ_CHECK(program.ok() == sequential.ok());
  if (!program.ok()) return 0;  // some tensor has no elements
  const int64_t another = bytes.Below(4);
  for (int64_t batch : {block.inputs[0][0], another}) {
    Block sized = block;
    for (Shape& shape : sized.inputs) shape[0] = batch;
    if (!InferShapes(sized).ok()) continue;
    std::vector<Tensor> inputs;
    for (const Shape& shape : sized.inputs) {
      inputs.push_back(RandomTensor(shape, &state, 1));
    }
    const std::vector<Tensor> found = Run(program->get(), inputs);
    const std::vector<Tensor> plain = Run(sequential->get(), inputs);
    FUZZ_CHECK(found.size() == plain.size());
    if (found.empty()) continue;
    std::vector<Tensor> expected;
    const std::vector<Tensor> all = Evaluate(sized, inputs, values);
    // Very large values are not compared. For example, the maximum of no cells
    // is the lowest float, and the result of multiplying it by zero depends on
    // the order of computation.
    if (!AllModerate(all)) continue;
    for (int out : block.outputs) expected.push_back(all[out]);
    Compare(plain, expected, block, SequentialSchedule(block));
    Compare(found, expected, block, schedule);
  }
  return 0;
}

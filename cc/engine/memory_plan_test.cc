// Tests the memory plan: tensors that share memory are never live at the same
// time, and concat inputs lie in their slices.
#include "cc/engine/memory_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/cc/blocks.h"
#include "tests/cc/testing.h"

namespace ios {
namespace {

using testing::AddsPieces;
using testing::AddsTerms;
using testing::Conv;
using testing::Join;
using testing::MakeBlock;
using testing::Pitched;

MemoryPlan Plan(const Block& block, const Schedule& schedule,
                const DeviceTraits& device = Pitched(),
                bool share_memory = true) {
  const std::vector<Shape> shapes = *InferShapes(block);
  MemoryPlanOptions options;
  options.share_memory = share_memory;
  return PlanMemory(block, shapes, schedule,
                    PlaceTensors(block, shapes, device), options);
}

constexpr int64_t kTensor = 8 * 8 * 16;  // elements of [1, 8, 8, 16]

Block Chain(int length) {
  std::vector<Operator> operators;
  for (int i = 0; i < length; ++i) operators.push_back(Conv(i - 1, 16, 3));
  return MakeBlock(operators, {length - 1});
}

TEST(ChainsTakeTwoBuffers) {
  const Block block = Chain(6);
  EXPECT(Plan(block, SequentialSchedule(block)).arena_elements == 2 * kTensor);
  EXPECT(
      Plan(block, SequentialSchedule(block), Pitched(), false).arena_elements ==
      5 * kTensor);
}

TEST(OutputsAreNotInTheArena) {
  const Block block = Chain(2);
  const MemoryPlan plan = Plan(block, SequentialSchedule(block));
  EXPECT(plan.buffers[plan.operators[1].buffer].kind ==
         TensorLocation::kOutput);
  EXPECT(plan.buffers[plan.inputs[0].buffer].kind == TensorLocation::kInput);
  EXPECT(plan.arena_elements == kTensor);
}

TEST(ConcurrentGroupsShareNothing) {
  // A sum of two branches, each with two convolutions.
  const Block block =
      MakeBlock({Conv(-1, 16, 3), Conv(-1, 16, 3), Conv(0, 16, 3),
                 Conv(1, 16, 3), Join(OperatorType::kAdd, {2, 3})},
                {4});
  const Schedule concurrent = {{{Strategy::kConcurrent, {{0, 2}, {1, 3}}},
                                {Strategy::kConcurrent, {{4}}}}};
  EXPECT(Plan(block, concurrent).arena_elements == 4 * kTensor);
  EXPECT(Plan(block, SequentialSchedule(block)).arena_elements == 3 * kTensor);
}

TEST(ConcatInputsLieInTheirSlices) {
  const Block block =
      MakeBlock({Conv(-1, 32, 1), Conv(-1, 16, 3),
                 Join(OperatorType::kConcat, {0, 1}), Conv(2, 16, 1)},
                {3});
  const MemoryPlan plan = Plan(block, SequentialSchedule(block));
  for (int i : {0, 1}) {
    EXPECT(plan.operators[i].buffer == plan.operators[2].buffer);
    EXPECT(plan.operators[i].view.pitch == 48);
  }
  EXPECT(plan.operators[0].offset == 0 && plan.operators[1].offset == 32);
  EXPECT(plan.arena_elements == 8 * 8 * 48);
  EXPECT(plan.OwnsBuffer(2) && !plan.OwnsBuffer(1));
  // The concat copies an input if another reader of this input needs a dense
  // tensor.
  DeviceTraits dense = Pitched();
  dense.reads_pitched = [](const Operator&) { return false; };
  const Block read_twice =
      MakeBlock({Conv(-1, 32, 1), Conv(-1, 16, 3),
                 Join(OperatorType::kConcat, {0, 1}), Conv(0, 16, 1)},
                {2, 3});
  const MemoryPlan copied =
      Plan(read_twice, SequentialSchedule(read_twice), dense);
  EXPECT(copied.operators[0].buffer != copied.operators[2].buffer);
  EXPECT(copied.operators[1].buffer == copied.operators[2].buffer);
}

TEST(ConcatsAreLeftInPieces) {
  // The sum reads both inputs of the absorbed concat after operator 3 has
  // written its output, so this output must not overwrite them.
  const Block block = MakeBlock(
      {Conv(-1, 8, 1), Conv(-1, 8, 3), Join(OperatorType::kConcat, {0, 1}),
       Conv(-1, 16, 3), Join(OperatorType::kAdd, {2, 3}), Conv(4, 16, 1)},
      {5});
  DeviceTraits device = Pitched();
  device.absorbs = AddsPieces;
  const MemoryPlan plan = Plan(block, SequentialSchedule(block), device);
  EXPECT(plan.IsView(block, 2) && !plan.OwnsBuffer(2));
  EXPECT(plan.TensorsOf(block, 2) == std::vector<int>({0, 1}));
  EXPECT(plan.TensorsOf(block, 3) == std::vector<int>({3}));
  EXPECT(plan.TensorsOf(block, -1) == std::vector<int>({-1}));
  for (int i : {0, 1}) EXPECT(plan.OwnsBuffer(i));
  // The two halves (one tensor together), the third convolution and the sum are
  // in use at the same time.
  EXPECT(plan.arena_elements == 3 * kTensor);

  // If another operator reads the whole concat, it is not absorbed.
  Block read_twice = block;
  read_twice.operators[5] = Conv(2, 16, 1);
  read_twice.outputs = {4, 5};
  EXPECT(!Plan(read_twice, SequentialSchedule(read_twice), device).absorbed[2]);
  Block output = block;
  output.outputs = {2, 5};
  EXPECT(!Plan(output, SequentialSchedule(output), device).absorbed[2]);
}

TEST(SumsAreLeftInTerms) {
  Operator sepconv = Conv(1, 16, 3);
  sepconv.type = OperatorType::kSepConv;
  const Block block = MakeBlock(
      {Conv(-1, 16, 1), Join(OperatorType::kAdd, {0, -1}), sepconv}, {2});
  DeviceTraits device = Pitched();
  device.absorbs = AddsTerms;
  const MemoryPlan plan = Plan(block, SequentialSchedule(block), device);
  EXPECT(plan.IsView(block, 1));
  EXPECT(plan.TensorsOf(block, 1) == std::vector<int>({0, -1}));
  EXPECT(plan.arena_elements == kTensor);

  // A sum with an activation is not absorbed, because it still has work.
  Block activated = block;
  activated.operators[1].activation = Activation::kRelu;
  EXPECT(
      !Plan(activated, SequentialSchedule(block), device).IsView(activated, 1));
}

struct When {
  int stage, group, position;
};

bool EndsBefore(const When& a, const When& b) {
  if (a.stage != b.stage) return a.stage < b.stage;
  return a.group == b.group && a.position < b.position;
}

// Returns a random block of convolutions and sums whose tensors all have the
// same shape.
Block RandomBlock(std::mt19937* random, int size) {
  std::vector<Operator> operators;
  std::vector<bool> read(size, false);
  for (int i = 0; i < size; ++i) {
    const auto any = [&] {
      return static_cast<int>((*random)() % (i + 1)) - 1;
    };
    const int a = any(), b = any();
    operators.push_back(a == b ? Conv(a, 16, 3)
                               : Join(OperatorType::kAdd, {a, b}));
    for (int ref : {a, b}) {
      if (ref >= 0) read[ref] = true;
    }
  }
  std::vector<int> outputs;
  for (int i = 0; i < size; ++i) {
    if (!read[i]) outputs.push_back(i);
  }
  return MakeBlock(operators, outputs);
}

// Cuts the operators into random stages; groups are the connected components.
Schedule RandomSchedule(std::mt19937* random, const Block& block) {
  const int n = block.operators.size();
  Schedule schedule;
  for (int begin = 0; begin < n;) {
    const int end = std::min<int>(n, begin + 1 + (*random)() % 4);
    std::vector<int> label(n, -1);
    for (int i = begin; i < end; ++i) {
      label[i] = i;
      for (int ref : block.operators[i].inputs) {
        if (ref < begin) continue;
        const int from = label[i], to = label[ref];
        for (int k = begin; k <= i; ++k) {
          if (label[k] == from) label[k] = to;
        }
      }
    }
    Stage stage;
    for (int l = begin; l < end; ++l) {
      std::vector<int> group;
      for (int i = begin; i < end; ++i) {
        if (label[i] == l) group.push_back(i);
      }
      if (!group.empty()) stage.groups.push_back(group);
    }
    schedule.stages.push_back(stage);
    begin = end;
  }
  return schedule;
}

TEST(NothingThatMayBeLiveTogetherOverlaps) {
  std::mt19937 random(1);
  int shared = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Block block = RandomBlock(&random, 3 + trial % 12);
    const Schedule schedule = RandomSchedule(&random, block);
    EXPECT(Validate(schedule, block).ok());
    const MemoryPlan plan = Plan(block, schedule);
    const int n = block.operators.size();
    std::vector<When> when(n);
    for (size_t s = 0; s < schedule.stages.size(); ++s) {
      for (size_t g = 0; g < schedule.stages[s].groups.size(); ++g) {
        const std::vector<int>& group = schedule.stages[s].groups[g];
        for (size_t p = 0; p < group.size(); ++p) {
          when[group[p]] = {static_cast<int>(s), static_cast<int>(g),
                            static_cast<int>(p)};
        }
      }
    }
    // Returns whether the last read of tensor `a` is before the write of `b`.
    const auto dead_before = [&](int a, int b) {
      for (int i = 0; i < n; ++i) {
        const std::vector<int>& in = block.operators[i].inputs;
        const bool uses = i == a || std::count(in.begin(), in.end(), a) > 0;
        if (uses && !EndsBefore(when[i], when[b])) return false;
      }
      return true;
    };
    const auto address = [&](int i) {
      return plan.buffers[plan.operators[i].buffer].offset +
             plan.operators[i].offset;
    };
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < a; ++b) {
        const auto kind = [&](int i) {
          return plan.buffers[plan.operators[i].buffer].kind;
        };
        if (kind(a) != TensorLocation::kArena ||
            kind(b) != TensorLocation::kArena ||
            std::abs(address(a) - address(b)) >= kTensor) {
          continue;
        }
        ++shared;
        EXPECT(dead_before(a, b) || dead_before(b, a));
      }
    }
  }
  EXPECT(shared > 100);
}

}  // namespace
}  // namespace ios

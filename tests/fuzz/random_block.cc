#include "tests/fuzz/random_block.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "cc/core/ir/merge.h"
#include "cc/core/ops/attribute_values.h"

namespace ios::fuzz {
namespace {

constexpr int kOperators = 8;

Operator RandomOperator(Bytes* bytes, int refs, int inputs) {
  const auto ref = [&] {  // a random tensor, usually of a late operator
    return static_cast<int>(refs - 1 - bytes->Below(refs + inputs));
  };
  Operator op;
  op.type = static_cast<OperatorType>(
      bytes->Below(static_cast<int>(OperatorType::kLrn) + 1));
  op.inputs = {ref()};
  constexpr Activation::Kind kActivations[] = {
      Activation::kNone, Activation::kRelu, Activation::kTanh,
      Activation::kLeakyRelu};
  const Activation activation = kActivations[bytes->Below(4)];
  const auto windows = [&] {
    for (int d = 0; d < 2; ++d) {
      op.kernel[d] = 1 + bytes->Below(4);
      op.strides[d] = 1 + bytes->Below(3) / 2;
    }
    op.padding.type = static_cast<PaddingType>(bytes->Below(3));
    if (op.padding.type == PaddingType::kExplicit) {
      op.padding.top = bytes->Below(3);
      op.padding.bottom = bytes->Below(3);
      op.padding.left = bytes->Below(3);
      op.padding.right = bytes->Below(3);
    }
  };
  switch (op.type) {
    case OperatorType::kConv2D:
    case OperatorType::kSepConv:
    case OperatorType::kConv2DTranspose:
      windows();
      for (int d = 0; d < 2; ++d) op.dilations[d] = 1 + bytes->Below(4) / 3;
      op.filters = 1 + bytes->Below(20);
      op.bias = bytes->Flip();
      op.activation = activation;
      if (op.type == OperatorType::kConv2D) {
        op.groups = 1 + bytes->Below(8) / 6;
      } else if (op.type == OperatorType::kSepConv) {
        op.multiplier = 1 + bytes->Below(2);
        if (bytes->Flip()) op.pre_activation = Activation::kRelu;
      }
      if (op.type != OperatorType::kConv2DTranspose && bytes->Below(4) == 0) {
        op.residual = true;
        op.inputs.push_back(ref());
      }
      break;
    case OperatorType::kPool:
      windows();
      op.pool = bytes->Flip() ? PoolKind::kAvg : PoolKind::kMax;
      op.pads_zeros = op.pool == PoolKind::kMax &&
                      op.padding.type == PaddingType::kExplicit &&
                      bytes->Flip();
      break;
    case OperatorType::kGlobalPool:
      op.keep_dims = bytes->Flip();
      [[fallthrough]];
    case OperatorType::kReduce:
      op.pool = static_cast<PoolKind>(bytes->Below(3));
      break;
    case OperatorType::kConcat:
    case OperatorType::kAdd:
      for (int64_t more = bytes->Below(3); more >= 0; --more) {
        op.inputs.push_back(ref());
      }
      if (op.type == OperatorType::kAdd) op.activation = activation;
      break;
    case OperatorType::kBinary:
      op.function = static_cast<BinaryFunction>(bytes->Below(8));
      // Divisions are not used: rounding may change a quotient of numbers near
      // 0 completely.
      if (op.function == BinaryFunction::kDivide) {
        op.function = BinaryFunction::kAdd;
      }
      op.inputs.push_back(ref());
      op.activation = activation;
      break;
    case OperatorType::kMatMul:
      op.filters = 1 + bytes->Below(9);
      op.bias = bytes->Flip();
      op.activation = activation;
      break;
    case OperatorType::kPad:
      op.padding = {PaddingType::kExplicit, bytes->Below(4) - 1,
                    bytes->Below(4) - 1, bytes->Below(4) - 1,
                    bytes->Below(4) - 1};
      op.pad_mode = static_cast<PadMode>(bytes->Below(kPadModeNames.size()));
      if (op.pad_mode == PadMode::kConstant) {
        op.pad_value = bytes->Below(3);
        op.channel_padding = {bytes->Below(3), bytes->Below(3)};
      }
      break;
    case OperatorType::kActivation:
    case OperatorType::kScale:
      op.activation = activation;
      break;
    case OperatorType::kSlice:
      op.offset = bytes->Below(9);
      op.size = 1 + bytes->Below(9);
      break;
    case OperatorType::kNormalize:
      op.per_image = bytes->Flip();
      op.groups = 1 + bytes->Below(3);
      op.epsilon = 0.5f;
      break;
    case OperatorType::kChannelShuffle:
      op.groups = 1 + bytes->Below(4);
      break;
    case OperatorType::kResize:
      op.factors = {1 + bytes->Below(2), 1 + bytes->Below(2)};
      break;
    case OperatorType::kDepthToSpace:
    case OperatorType::kSpaceToDepth:
      op.block_size = 1 + bytes->Below(2);
      break;
    case OperatorType::kLrn:
      op.depth_radius = bytes->Below(4);
      break;
    case OperatorType::kSoftmax:
      break;
  }
  return op;
}

// Changes the attributes of `op` that depend on the shape of its first input so
// that they match this shape.
void Fit(const Block& block, const std::vector<Shape>& shapes, Bytes* bytes,
         Operator* op) {
  const Shape& x = ShapeOf(block, shapes, op->inputs[0]);
  if (op->type == OperatorType::kMatMul && x.size() == 4) {
    op->kernel = {x[1], x[2]};
  }
  // Makes half of the grouped convolutions depthwise.
  if (op->type == OperatorType::kConv2D && op->groups > 1 && x.back() > 1 &&
      bytes->Flip()) {
    op->groups = op->filters = x.back();
  }
  if (op->type == OperatorType::kBinary && bytes->Flip()) {
    op->inputs.resize(1);
    op->operand = x;
    op->operand[0] = 1;
    for (size_t d = 1; d + 1 < x.size(); ++d) {
      if (bytes->Flip() || x[d] < 1) op->operand[d] = 1;
    }
    op->constant_first = bytes->Flip();
  }
}

// Returns the connected components of a stage's operators `members`.
std::vector<std::vector<int>> Components(const Block& block,
                                         const std::vector<int>& members) {
  std::vector<std::vector<int>> groups;
  for (int op : members) {
    std::vector<int> joined;
    std::vector<std::vector<int>> others;
    for (std::vector<int>& group : groups) {
      const bool connected = std::any_of(
          block.operators[op].inputs.begin(), block.operators[op].inputs.end(),
          [&](int ref) {
            return std::find(group.begin(), group.end(), ref) != group.end();
          });
      if (connected) {
        joined.insert(joined.end(), group.begin(), group.end());
      } else {
        others.push_back(std::move(group));
      }
    }
    std::sort(joined.begin(), joined.end());
    joined.push_back(op);
    others.push_back(std::move(joined));
    groups = std::move(others);
  }
  return groups;
}

}  // namespace

Block RandomBlock(Bytes* bytes) {
  Block block;
  const int64_t batch = bytes->Below(4);
  for (int64_t i = bytes->Below(2); i >= 0; --i) {
    block.inputs.push_back(
        {batch, bytes->Below(9), bytes->Below(9), 1 + bytes->Below(18)});
  }
  std::vector<Shape> shapes;
  for (int i = 0; i < kOperators && !bytes->empty(); ++i) {
    Operator op =
        RandomOperator(bytes, block.operators.size(), block.inputs.size());
    Fit(block, shapes, bytes, &op);
    std::vector<Shape> in;
    for (int ref : op.inputs) in.push_back(ShapeOf(block, shapes, ref));
    const StatusOr<Shape> shape = InferShape(op, in);
    if (!shape.ok() || NumElements(*shape) > 5000) continue;
    block.operators.push_back(std::move(op));
    shapes.push_back(*shape);
  }
  std::vector<bool> read(block.operators.size());
  for (const Operator& op : block.operators) {
    for (int ref : op.inputs) {
      if (ref >= 0) read[ref] = true;
    }
  }
  for (size_t i = 0; i < read.size(); ++i) {
    if (!read[i] || bytes->Below(6) == 5) block.outputs.push_back(i);
  }
  return block;
}

Schedule RandomSchedule(const Block& block, Bytes* bytes) {
  const int n = block.operators.size();
  std::vector<bool> done(n);
  Schedule schedule;
  for (int left = n; left > 0;) {
    const auto is_ready = [&](int op, const std::vector<int>& with) {
      const std::vector<int>& inputs = block.operators[op].inputs;
      return !done[op] &&
             std::all_of(inputs.begin(), inputs.end(), [&](int ref) {
               return ref < 0 || done[ref] ||
                      std::find(with.begin(), with.end(), ref) != with.end();
             });
    };
    Stage stage;
    if (bytes->Flip()) {
      for (const std::vector<int>& all : MergeClasses(block)) {
        std::vector<int> members;
        std::copy_if(all.begin(), all.end(), std::back_inserter(members),
                     [&](int op) { return is_ready(op, {}); });
        if (members.size() > 1) {
          stage = {Strategy::kMerge, {members}};
          break;
        }
      }
    }
    if (stage.groups.empty()) {
      std::vector<int> members;
      for (int op = 0; op < n; ++op) {
        if (is_ready(op, members) && (members.empty() || bytes->Flip())) {
          members.push_back(op);
        }
      }
      if (bytes->Below(3) == 2) {
        stage = {Strategy::kSplit, {members}, 2 + bytes->Below(3)};
      } else {
        stage.groups = Components(block, members);
      }
    }
    for (const std::vector<int>& group : stage.groups) {
      for (int op : group) {
        done[op] = true;
        --left;
      }
    }
    schedule.stages.push_back(std::move(stage));
  }
  for (int op = 0; op < n; ++op) {
    const auto algorithm =
        static_cast<Algorithm>(bytes->Below(kAlgorithmNames.size()));
    if (algorithm != Algorithm::kDirect &&
        MayCompute(block.operators[op], algorithm)) {
      schedule.algorithms[op] = algorithm;
    }
  }
  return schedule;
}

}  // namespace ios::fuzz

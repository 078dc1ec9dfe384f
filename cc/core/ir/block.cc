#include "cc/core/ir/block.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/limits.h"
#include "cc/core/sha256.h"

namespace ios {
namespace {

std::string Where(const Operator& op, int index) {
  return std::string(ToString(op.type)) + " operator " + std::to_string(index) +
         (op.name.empty() ? "" : " " + Quoted(op.name));
}

}  // namespace

int64_t BatchSize(const std::vector<Shape>& inputs) {
  int64_t batch = 1;
  for (const Shape& shape : inputs) {
    if (shape.empty()) continue;  // not a valid input
    // A batch of 0 images also broadcasts against a batch of 1.
    if (batch == 1 || shape[0] > std::max<int64_t>(batch, 1)) batch = shape[0];
  }
  return batch;
}

DataType InputDtype(const Block& block, size_t input) {
  return block.input_dtypes.empty() ? block.dtype : block.input_dtypes[input];
}

DataType OutputDtype(const Block& block, size_t output) {
  return block.output_dtypes.empty() ? block.dtype
                                     : block.output_dtypes[output];
}

DataType DtypeOf(const Block& block, int ref) {
  if (ref < 0) return InputDtype(block, -1 - ref);
  for (size_t k = 0; k < block.output_dtypes.size(); ++k) {
    if (block.outputs[k] == ref) return block.output_dtypes[k];
  }
  return block.dtype;
}

void SimplifyDtypes(Block* block) {
  for (std::vector<DataType>* dtypes :
       {&block->input_dtypes, &block->output_dtypes}) {
    if (std::all_of(dtypes->begin(), dtypes->end(),
                    [&](DataType dtype) { return dtype == block->dtype; })) {
      dtypes->clear();
    }
  }
}

const Shape& ShapeOf(const Block& block, const std::vector<Shape>& shapes,
                     int ref) {
  return ref < 0 ? block.inputs[-1 - ref] : shapes[ref];
}

std::vector<Shape> InputShapes(const Block& block,
                               const std::vector<Shape>& shapes, int index) {
  std::vector<Shape> inputs;
  for (int ref : block.operators[index].inputs) {
    inputs.push_back(ShapeOf(block, shapes, ref));
  }
  return inputs;
}

StatusOr<std::vector<Shape>> InferShapes(const Block& block) {
  // Checks all inputs, also those that no operator reads.
  for (const Shape& shape : block.inputs) {
    IOS_RETURN_IF_ERROR(CheckTensor(shape));
  }
  std::vector<Shape> shapes;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    StatusOr<Shape> shape = InferShape(op, InputShapes(block, shapes, i));
    if (!shape.ok()) {
      return Status(shape.status().code(),
                    Where(op, i) + ": " + shape.status().message());
    }
    shapes.push_back(std::move(*shape));
  }
  return shapes;
}

PartOfBlock TakePart(const Block& block, const std::vector<Shape>& shapes,
                     const std::vector<int>& operators) {
  PartOfBlock part;
  part.block.name = block.name;
  part.block.dtype = block.dtype;
  part.block.callers = block.callers;
  std::map<int, int> known;  // maps the block's references to the part's
  for (int i : operators) {
    Operator op = block.operators[i];
    for (int& ref : op.inputs) {
      const auto [inside, is_new] = known.try_emplace(ref);
      if (is_new) {
        part.inputs.push_back(ref);
        part.block.inputs.push_back(ShapeOf(block, shapes, ref));
        part.block.input_dtypes.push_back(DtypeOf(block, ref));
        inside->second = -static_cast<int>(part.inputs.size());
      }
      ref = inside->second;
    }
    known[i] = part.block.operators.size();
    part.block.operators.push_back(std::move(op));
  }
  // read[i] says whether the output of operator i is read outside of the part,
  // or is an output of the block.
  std::vector<bool> read(block.operators.size());
  for (int out : block.outputs) read[out] = true;
  std::vector<bool> members(block.operators.size());
  for (int i : operators) members[i] = true;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    if (members[i]) continue;
    for (int ref : block.operators[i].inputs) {
      if (ref >= 0) read[ref] = true;
    }
  }
  for (int i : operators) {
    if (!read[i]) continue;
    part.outputs.push_back(i);
    part.block.outputs.push_back(known[i]);
    part.block.output_dtypes.push_back(DtypeOf(block, i));
  }
  SimplifyDtypes(&part.block);
  return part;
}

Status Validate(const Block& block) {
  if (block.operators.empty()) return InvalidArgument("block has no operators");
  if (block.operators.size() > kMaxOperators ||
      block.inputs.size() > kMaxOperators) {
    return InvalidArgument("block has more than " +
                           std::to_string(kMaxOperators) +
                           " operators or inputs");
  }
  if (block.callers < 1 || block.callers > kMaxDimension) {
    return InvalidArgument("the block is scheduled for " +
                           std::to_string(block.callers) +
                           " callers, but the number must be from 1 to " +
                           std::to_string(kMaxDimension));
  }
  const int num_inputs = block.inputs.size();
  const int num_operators = block.operators.size();
  size_t references = 0;
  for (int i = 0; i < num_operators; ++i) {
    const Operator& op = block.operators[i];
    references += op.inputs.size();
    if (references > kMaxReferences) {
      return InvalidArgument("the block's operators read more than " +
                             std::to_string(kMaxReferences) + " tensors");
    }
    for (int ref : op.inputs) {
      if (ref >= i || ref < -num_inputs) {
        return InvalidArgument(Where(op, i) + " reads tensor " +
                               std::to_string(ref) +
                               ", which is neither a block input nor the "
                               "output of an earlier operator");
      }
    }
  }
  std::vector<bool> seen(num_operators, false);
  if (block.outputs.empty()) return InvalidArgument("block has no outputs");
  for (int out : block.outputs) {
    if (out < 0 || out >= num_operators || seen[out]) {
      return InvalidArgument(
          "output " + std::to_string(out) +
          " of the block is not the index of an operator, or is listed twice");
    }
    seen[out] = true;
  }
  const auto is_complete = [](size_t dtypes, size_t tensors) {
    return dtypes == 0 || dtypes == tensors;
  };
  if (!is_complete(block.input_dtypes.size(), block.inputs.size()) ||
      !is_complete(block.output_dtypes.size(), block.outputs.size())) {
    return InvalidArgument(
        "the block must have one data type for each input and for each output");
  }
  return InferShapes(block).status();
}

std::string Signature(const Block& block) {
  Block nameless = block;
  nameless.name.clear();
  for (Operator& op : nameless.operators) op.name.clear();
  return Sha256Hex(ToJson(nameless));
}

}  // namespace ios

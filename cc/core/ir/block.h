// Block: the operators that one dynamic program schedules, with typed
// attributes, shapes and edges, but without weights. Its canonical JSON is the
// project's interchange format. The SHA-256 of this JSON without names is the
// block's signature.
#ifndef IOS_TF_CC_CORE_IR_BLOCK_H_
#define IOS_TF_CC_CORE_IR_BLOCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/ir/data_type.h"
#include "cc/core/ops/operator.h"
#include "cc/core/status.h"

namespace ios {

struct Block {
  std::string name;
  DataType dtype = DataType::kFloat32;  // of every tensor inside of the block
  std::vector<Shape> inputs;
  std::vector<Operator> operators;  // in a topological order
  std::vector<int> outputs;         // operators whose result leaves the block
  // The data types of the inputs and outputs. Empty: all have `dtype`.
  std::vector<DataType> input_dtypes = {}, output_dtypes = {};
  // The block is scheduled for this number of callers that run it at the same
  // time. The number does not change how the block is computed.
  int64_t callers = 1;
};

// Returns the number of images: the first dimension of the inputs. An input
// whose first dimension is 1 broadcasts over the images and does not count.
// Returns 1 if there are no inputs.
int64_t BatchSize(const std::vector<Shape>& inputs);
inline int64_t BatchSize(const Block& block) { return BatchSize(block.inputs); }

DataType InputDtype(const Block& block, size_t input);
DataType OutputDtype(const Block& block, size_t output);
// The data type of tensor reference `ref` (see Operator::inputs).
DataType DtypeOf(const Block& block, int ref);
// Makes an empty list of data types of a block whose tensors all have `dtype`.
void SimplifyDtypes(Block* block);

// Returns the shape of each operator's output. The paddings SAME and VALID
// follow TensorFlow's rules. An error names the operator and the mismatch.
StatusOr<std::vector<Shape>> InferShapes(const Block& block);

// Checks that operators are in a topological order, references to tensors are
// in range, attributes are legal, and shapes can be inferred.
Status Validate(const Block& block);

// The shape of tensor reference `ref` (see Operator::inputs).
const Shape& ShapeOf(const Block& block, const std::vector<Shape>& shapes,
                     int ref);

// The shapes of all inputs of operator `index`, in order.
std::vector<Shape> InputShapes(const Block& block,
                               const std::vector<Shape>& shapes, int index);

// Some operators of a block as a separate block. `inputs` and `outputs` list
// the part's inputs and outputs, by their indices in the whole block.
struct PartOfBlock {
  Block block;
  std::vector<int> inputs;   // tensors
  std::vector<int> outputs;  // operators
};

// Returns the part of `block` that consists of `operators`, which must be in a
// topological order. `shapes` has the shapes of all operators' outputs. The
// part's outputs are those operators that the rest of the block reads or that
// are outputs of the block.
PartOfBlock TakePart(const Block& block, const std::vector<Shape>& shapes,
                     const std::vector<int>& operators);

std::string ToJson(const Block& block);
StatusOr<Block> BlockFromJson(const std::string& json);
std::string Signature(const Block& block);  // 64 hexadecimal digits

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_BLOCK_H_

#include "cc/engine/backend/backend.h"

#include <algorithm>

namespace ios {
void ShiftTensors(int by, std::vector<BoundStage>* stages) {
  for (BoundStage& stage : *stages) {
    for (std::vector<BoundTask>& group : stage.groups) {
      for (BoundTask& task : group) {
        for (int& input : task.inputs) input += by;
        task.output += by;
      }
    }
  }
}

bool TaskSpec::reads_nothing() const {
  // With `size_from_last_input`, only the size of the last input matters.
  const auto end = inputs.end() - (op->size_from_last_input ? 1 : 0);
  return std::any_of(inputs.begin(), end, [](const TensorView& view) {
    return NumElements(view.shape) == 0;
  });
}

void* TensorLocation::In(const std::vector<const void*>& inputs,
                         const std::vector<void*>& outputs, void* arena) const {
  void* base = arena;
  if (kind == kInput) base = const_cast<void*>(inputs[index]);
  if (kind == kOutput) base = outputs[index];
  // A tensor without elements may have a null address.
  return base ? static_cast<char*>(base) + offset : nullptr;
}

}  // namespace ios

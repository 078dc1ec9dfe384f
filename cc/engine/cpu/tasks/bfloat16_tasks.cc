#include "cc/engine/cpu/tasks/bfloat16_tasks.h"

#include "cc/engine/cpu/tasks/widened.h"

namespace ios::cpu {

StatusOr<std::unique_ptr<Task>> CompileBFloat16Task(
    const TaskSpec& spec, const dnnl::engine& engine) {
  if (spec.reads_nothing()) return MakeWidenedTask(spec, engine);
  switch (spec.op->type) {
    default:
      return MakeWidenedTask(spec, engine);
  }
}

}  // namespace ios::cpu

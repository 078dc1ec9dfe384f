// Precision: chooses the data type that each operator computes in.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_PRECISION_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_PRECISION_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/core/ir/data_type.h"
#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/importer.h"

namespace ios::tf {

// The precision of the operators that are float32 or float16 in the graph, on
// the CPU.
struct Precision {
  // The type that they compute in: kFloat32 or kBFloat16.
  DataType dtype = DataType::kFloat32;
  // The names of operators that compute in float32 in any case.
  std::set<std::string> float32_operators;

  bool operator!=(const Precision& other) const {
    return dtype != other.dtype || float32_operators != other.float32_operators;
  }
};

// Returns whether regions may compute in bfloat16 in this process. This is true
// if the processor multiplies bfloat16 numbers, unless SetComputesBFloat16()
// has set another value.
bool ComputesBFloat16();
// Overrides the value of ComputesBFloat16(), for tests.
void SetComputesBFloat16(bool computes);

// Returns the precision "float32", "bfloat16" or "auto" for all operators.
// "auto" means bfloat16 if ComputesBFloat16() is true, and otherwise float32.
// Returns an error if bfloat16 is requested, but ComputesBFloat16() is false.
absl::StatusOr<Precision> PrecisionFromString(const std::string& text);

// Chooses the types of operators on the CPU that are float32 or float16. They
// compute in bfloat16 if `precision` asks for it, or if a conversion has marked
// the operator's nodes (kPrecisionAttr) and ComputesBFloat16() is true.
// Otherwise, and always for a softmax, they compute in float32: rounding a
// logit of 10 to bfloat16 changes the result by up to 3 %, and CPUs have no
// fast arithmetic in float16.
void SetPrecision(const GraphView& graph, const DevicePlacement& placement,
                  const Precision& precision,
                  std::vector<ImportedOperator>* operators);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_PRECISION_H_

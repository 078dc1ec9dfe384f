/* Reads the warm-up requests of a SavedModel, as a model server does: predict
 * requests in assets.extra/tf_serving_warmup_requests. For C and for C++. */
#ifndef IOS_TF_EXAMPLES_SERVING_WARMUP_H_
#define IOS_TF_EXAMPLES_SERVING_WARMUP_H_

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

/* What Session::Run takes. */
struct WarmupRequest {
  std::vector<std::pair<std::string, tensorflow::Tensor>> inputs;
  std::vector<std::string> outputs; /* in the order of their names */
};

/* No requests where the file is missing: it is optional. */
absl::StatusOr<std::vector<WarmupRequest>> ReadWarmupRequests(
    const std::string& model, const tensorflow::MetaGraphDef& meta_graph);

extern "C" {
#endif

/* What TF_SessionRun takes. */
typedef struct TF_WarmupRequest {
  int num_inputs, num_outputs;
  TF_Output* inputs;
  TF_Tensor** values;
  TF_Output* outputs; /* in the order of their names */
} TF_WarmupRequest;

/* The requests, `*count` of them; to be freed with TF_FreeWarmupRequests. */
TF_WarmupRequest* TF_ReadWarmupRequests(const char* model,
                                        const TF_Buffer* meta_graph_def,
                                        TF_Graph* graph, int* count,
                                        TF_Status* status);
void TF_FreeWarmupRequests(TF_WarmupRequest* requests, int count);

#ifdef __cplusplus
}
#endif

#endif /* IOS_TF_EXAMPLES_SERVING_WARMUP_H_ */

// Warm-up requests without TensorFlow Serving's protocol buffers, which are not
// part of TensorFlow: the few fields that are needed are read by number.
#include "examples/serving/warmup.h"

#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "tensorflow/c/tf_tensor_internal.h"
#include "tensorflow/core/lib/io/record_reader.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/path.h"

namespace {

// Field numbers of tensorflow_serving/apis.
constexpr int kPredictLog = 6;     // PredictionLog.predict_log
constexpr int kRequest = 1;        // PredictLog.request
constexpr int kModelSpec = 1;      // PredictRequest.model_spec
constexpr int kInputs = 2;         // PredictRequest.inputs, a map
constexpr int kSignatureName = 3;  // ModelSpec.signature_name
constexpr int kKey = 1;            // of an entry of a map
constexpr int kValue = 2;

// The values of the message's fields `number`: strings or messages.
std::vector<std::string> Fields(const std::string& message, int number) {
  google::protobuf::UnknownFieldSet fields;
  std::vector<std::string> values;
  if (!fields.ParseFromArray(message.data(), message.size())) return values;
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() == number &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      values.emplace_back(field.length_delimited());
    }
  }
  return values;
}

std::string Field(const std::string& message, int number) {
  const std::vector<std::string> values = Fields(message, number);
  return values.empty() ? "" : values.back();
}

absl::StatusOr<WarmupRequest> ParseRequest(
    const std::string& prediction_log,
    const tensorflow::MetaGraphDef& meta_graph) {
  const std::string request =
      Field(Field(prediction_log, kPredictLog), kRequest);
  if (request.empty()) {
    return absl::UnimplementedError("a warm-up request is no predict request");
  }
  std::string name = Field(Field(request, kModelSpec), kSignatureName);
  if (name.empty()) name = "serving_default";
  const auto signature = meta_graph.signature_def().find(name);
  if (signature == meta_graph.signature_def().end()) {
    return absl::NotFoundError(absl::StrCat("no signature '", name, "'"));
  }
  WarmupRequest result;
  for (const std::string& entry : Fields(request, kInputs)) {
    const std::string key = Field(entry, kKey);
    const auto info = signature->second.inputs().find(key);
    tensorflow::TensorProto proto;
    tensorflow::Tensor tensor;
    if (info == signature->second.inputs().end() ||
        !proto.ParseFromString(Field(entry, kValue)) ||
        !tensor.FromProto(proto)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", key, "' of a warm-up request does not fit the signature"));
    }
    result.inputs.emplace_back(info->second.name(), std::move(tensor));
  }
  const std::map<std::string, tensorflow::TensorInfo> outputs(
      signature->second.outputs().begin(), signature->second.outputs().end());
  for (const auto& [key, info] : outputs) {
    result.outputs.push_back(info.name());
  }
  return result;
}

// "operation:index".
TF_Output FindOutput(TF_Graph* graph, const std::string& tensor) {
  const size_t colon = tensor.find(':');
  const int index =
      colon == std::string::npos ? 0 : std::stoi(tensor.substr(colon + 1));
  return {TF_GraphOperationByName(graph, tensor.substr(0, colon).c_str()),
          index};
}

void SetStatus(const absl::Status& from, TF_Status* to) {
  TF_SetStatus(to, static_cast<TF_Code>(from.code()),
               std::string(from.message()).c_str());
}

}  // namespace

absl::StatusOr<std::vector<WarmupRequest>> ReadWarmupRequests(
    const std::string& model, const tensorflow::MetaGraphDef& meta_graph) {
  tensorflow::Env* env = tensorflow::Env::Default();
  const std::string path = tensorflow::io::JoinPath(
      model, "assets.extra", "tf_serving_warmup_requests");
  std::vector<WarmupRequest> requests;
  if (!env->FileExists(path).ok()) return requests;
  std::unique_ptr<tensorflow::RandomAccessFile> file;
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(path, &file));
  tensorflow::io::SequentialRecordReader reader(file.get());
  tensorflow::tstring record;
  absl::Status status;
  while ((status = reader.ReadRecord(&record)).ok()) {
    TF_ASSIGN_OR_RETURN(WarmupRequest request,
                        ParseRequest(record, meta_graph));
    requests.push_back(std::move(request));
  }
  if (!absl::IsOutOfRange(status)) return status;  // the end of the file
  return requests;
}

TF_WarmupRequest* TF_ReadWarmupRequests(const char* model,
                                        const TF_Buffer* meta_graph_def,
                                        TF_Graph* graph, int* count,
                                        TF_Status* status) {
  *count = 0;
  tensorflow::MetaGraphDef meta_graph;
  if (!meta_graph.ParseFromArray(meta_graph_def->data,
                                 meta_graph_def->length)) {
    TF_SetStatus(status, TF_INVALID_ARGUMENT, "not a MetaGraphDef");
    return nullptr;
  }
  absl::StatusOr<std::vector<WarmupRequest>> read =
      ReadWarmupRequests(model, meta_graph);
  SetStatus(read.status(), status);
  if (!read.ok()) return nullptr;
  auto* requests = new TF_WarmupRequest[read->size()]();
  *count = read->size();
  for (int r = 0; r < *count; ++r) {
    const WarmupRequest& from = (*read)[r];
    TF_WarmupRequest& to = requests[r];
    to.num_inputs = from.inputs.size();
    to.num_outputs = from.outputs.size();
    to.inputs = new TF_Output[to.num_inputs];
    to.values = new TF_Tensor*[to.num_inputs]();
    to.outputs = new TF_Output[to.num_outputs];
    for (int i = 0; i < to.num_inputs; ++i) {
      to.inputs[i] = FindOutput(graph, from.inputs[i].first);
      absl::Status made;
      to.values[i] =
          tensorflow::TF_TensorFromTensor(from.inputs[i].second, &made);
      if (!made.ok()) SetStatus(made, status);
    }
    for (int i = 0; i < to.num_outputs; ++i) {
      to.outputs[i] = FindOutput(graph, from.outputs[i]);
    }
  }
  return requests;
}

void TF_FreeWarmupRequests(TF_WarmupRequest* requests, int count) {
  for (int r = 0; r < count; ++r) {
    for (int i = 0; i < requests[r].num_inputs; ++i) {
      TF_DeleteTensor(requests[r].values[i]);
    }
    delete[] requests[r].inputs;
    delete[] requests[r].values;
    delete[] requests[r].outputs;
  }
  delete[] requests;
}

#include "cc/tensorflow/convert/graph_api.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "cc/tensorflow/convert/open_graph.h"
#include "cc/tensorflow/status_util.h"

struct ios_tf_graph {
  std::unique_ptr<ios::tf::OpenGraph> opened;
};

namespace {

using ::ios::tf::OpenGraph;
using ::nlohmann::json;

// Calls `function`, which returns a status or throws. If it fails, returns
// false and describes the error in `error`.
template <typename F>
bool Succeeds(char** error, F&& function) noexcept {
  *error = nullptr;
  const absl::Status status = ios::tf::CatchExceptionsAbsl(function);
  if (status.ok()) return true;
  json payloads = json::array();
  status.ForEachPayload([&](absl::string_view name, const absl::Cord&) {
    payloads.push_back(std::string(name));
  });
  const json described = {{"code", static_cast<int>(status.code())},
                          {"message", std::string(status.message())},
                          {"payloads", std::move(payloads)}};
  *error = strdup(
      described.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  return false;
}

absl::StatusOr<ios::tf::Precision> ToPrecision(const json& value) {
  const ios::StatusOr<ios::DataType> dtype =
      ios::DataTypeFromString(value.at("dtype").get<std::string>());
  if (!dtype.ok()) return ios::tf::ToAbsl(dtype.status());
  return ios::tf::Precision{
      *dtype, value.at("float32_operators").get<std::set<std::string>>()};
}

absl::StatusOr<tensorflow::GraphDef> Rewritten(OpenGraph* graph,
                                               const char* text) {
  // An invalid request throws an exception, which Succeeds() reports.
  const json request = json::parse(text);
  ios::tf::RewriteOptions options;
  for (int64_t region : request.at("left")) options.left.insert(region);
  options.materialise_merges = request.at("materialise_merges");
  options.schedules =
      request.at("schedules").get<std::map<std::string, std::string>>();
  std::vector<ios::Load> loads;
  for (const json& load : request.at("loads")) {
    loads.push_back({load.at(0), load.at(1)});
  }
  TF_ASSIGN_OR_RETURN(const ios::tf::Precision precision,
                      ToPrecision(request.at("precision")));
  return graph->Annotate(loads, request.at("device").get<std::string>(),
                         precision, options);
}

// Serialises the graph into malloc()ed memory.
absl::Status Serialise(const absl::StatusOr<tensorflow::GraphDef>& graph,
                       char** result, int64_t* bytes) {
  TF_RETURN_IF_ERROR(graph.status());
  *bytes = graph->ByteSizeLong();
  *result = static_cast<char*>(std::malloc(*bytes + 1));
  if (*result == nullptr) {
    return absl::ResourceExhaustedError("out of memory");
  }
  if (!graph->SerializeToArray(*result, *bytes)) {
    std::free(*result);
    return absl::InvalidArgumentError(
        "the graph is larger than 2 GiB, the limit of a protocol buffer");
  }
  return absl::OkStatus();
}

}  // namespace

extern "C" {

ios_tf_graph* ios_tf_open_graph(const void* meta_graph, int64_t bytes,
                                int64_t height, int64_t width, char** error) {
  std::unique_ptr<ios_tf_graph> result;
  const bool opened = Succeeds(error, [&]() -> absl::Status {
    tensorflow::MetaGraphDef parsed;
    if (!parsed.ParseFromArray(meta_graph, bytes)) {
      return absl::InvalidArgumentError("the graph cannot be parsed");
    }
    result = std::make_unique<ios_tf_graph>();
    TF_ASSIGN_OR_RETURN(result->opened,
                        OpenGraph::Open(parsed, {height, width}));
    return absl::OkStatus();
  });
  return opened ? result.release() : nullptr;
}

void ios_tf_close_graph(ios_tf_graph* graph) { delete graph; }

char* ios_tf_graph_blocks(ios_tf_graph* graph, int64_t batch_size,
                          int64_t callers, const char* device,
                          const char* precision, char** error) {
  char* result = nullptr;
  const bool found = Succeeds(error, [&]() -> absl::Status {
    TF_ASSIGN_OR_RETURN(const ios::tf::Precision parsed,
                        ToPrecision(json::parse(precision)));
    TF_ASSIGN_OR_RETURN(
        const std::string blocks,
        graph->opened->Blocks({batch_size, callers}, device, parsed));
    result = strdup(blocks.c_str());
    return absl::OkStatus();
  });
  return found ? result : nullptr;
}

char* ios_tf_rewritten_graph(ios_tf_graph* graph, const char* request,
                             int64_t* bytes, char** error) {
  char* result = nullptr;
  const bool rewritten = Succeeds(error, [&] {
    return Serialise(Rewritten(graph->opened.get(), request), &result, bytes);
  });
  return rewritten ? result : nullptr;
}

char* ios_tf_lowered_graph(ios_tf_graph* graph, int64_t batch_size,
                           const char* device, int64_t* bytes, char** error) {
  char* result = nullptr;
  const bool lowered = Succeeds(error, [&] {
    return Serialise(graph->opened->Lower(batch_size, device), &result, bytes);
  });
  return lowered ? result : nullptr;
}

}  // extern "C"

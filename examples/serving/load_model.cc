// Serves a converted SavedModel the way a model server does, in C++: loads it
// by tensorflow::LoadSavedModel, sends its warm-up requests, and then the same
// requests from many threads, whose outputs must not differ by a bit.
//
//     load_model_cc MODEL [--plugin=libios_tf_ops.so] [--session_config=FILE]
//         [--threads=N] [--runs=N] [--outputs=FILE]
//
// --session_config: a ConfigProto as text. --outputs: where to write the
// outputs of all warm-up requests, one after the other, as they lie in memory.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "examples/serving/warmup.h"
#include "google/protobuf/text_format.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/public/session_options.h"

namespace {

using ::tensorflow::Tensor;
using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "load_model_cc: %s\n", what.c_str());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(std::string(status.message()));
}

bool SameBits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].shape() != b[i].shape() ||
        a[i].tensor_data() != b[i].tensor_data()) {
      return false;
    }
  }
  return true;
}

// Ops and optimizer of the plugin register themselves when it is loaded. A
// server that has //cc:ios_tf_ops linked in needs no such call.
void LoadPlugin(const std::string& path) {
  TF_Status* status = TF_NewStatus();
  TF_LoadLibrary(path.c_str(), status);
  if (TF_GetCode(status) != TF_OK) Fail(TF_Message(status));
  TF_DeleteStatus(status);
}

tensorflow::SessionOptions ReadSessionOptions(const std::string& path) {
  tensorflow::SessionOptions options;
  std::string text;
  Check(tensorflow::ReadFileToString(tensorflow::Env::Default(), path, &text));
  if (!google::protobuf::TextFormat::ParseFromString(text, &options.config)) {
    Fail(path + ": not a ConfigProto");
  }
  return options;
}

struct Options {
  std::string model;
  std::map<std::string, std::string> flags = {{"plugin", ""},
                                              {"session_config", ""},
                                              {"threads", "24"},
                                              {"runs", "240"},
                                              {"outputs", ""}};
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (argument.rfind("--", 0) != 0) {
      options.model = argument;
    } else if (equals == std::string::npos ||
               options.flags.count(argument.substr(2, equals - 2)) == 0) {
      Fail("unknown flag " + argument);
    } else {
      options.flags[argument.substr(2, equals - 2)] =
          argument.substr(equals + 1);
    }
  }
  if (options.model.empty())
    Fail("usage: load_model_cc MODEL [--FLAG=VALUE …]");
  return options;
}

using Outputs = std::vector<Tensor>;

Outputs Run(const tensorflow::SavedModelBundle& bundle,
            const WarmupRequest& request) {
  Outputs outputs;
  Check(bundle.session->Run(request.inputs, request.outputs, {}, &outputs));
  return outputs;
}

// Sends the requests `runs` times from many threads; gives how many outputs
// were not those expected.
int CountDifferent(const tensorflow::SavedModelBundle& bundle,
                   const std::vector<WarmupRequest>& requests,
                   const std::vector<Outputs>& expected, int thread_count,
                   int runs) {
  std::atomic<int> next{0}, wrong{0};
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&] {
      for (int i; (i = next++) < runs;) {
        const size_t r = i % requests.size();
        if (!SameBits(Run(bundle, requests[r]), expected[r])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d runs in %d threads: %.1f per second, %d differ\n", runs,
              thread_count, runs / MillisecondsSince(start) * 1e3,
              wrong.load());
  return wrong;
}

void Write(const std::vector<Outputs>& results, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const Outputs& outputs : results) {
    for (const Tensor& output : outputs) file << output.tensor_data();
  }
  if (!file.flush()) Fail(path + ": cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  auto [model, flags] = Parse(argc, argv);
  if (!flags["plugin"].empty()) LoadPlugin(flags["plugin"]);
  tensorflow::SessionOptions options;
  if (!flags["session_config"].empty()) {
    options = ReadSessionOptions(flags["session_config"]);
  }

  Clock::time_point start = Clock::now();
  tensorflow::SavedModelBundle bundle;
  Check(tensorflow::LoadSavedModel(options, tensorflow::RunOptions(), model,
                                   {"serve"}, &bundle));
  std::printf("loaded in %.0f ms\n", MillisecondsSince(start));

  absl::StatusOr<std::vector<WarmupRequest>> requests =
      ReadWarmupRequests(model, bundle.meta_graph_def);
  Check(requests.status());
  if (requests->empty()) Fail(model + " has no warm-up requests to send");
  std::vector<Outputs> expected;
  for (const WarmupRequest& request : *requests) {
    start = Clock::now();
    expected.push_back(Run(bundle, request));
    std::printf("warm-up request %zu: %.1f ms\n", expected.size(),
                MillisecondsSince(start));
  }
  const int wrong =
      CountDifferent(bundle, *requests, expected, std::stoi(flags["threads"]),
                     std::stoi(flags["runs"]));
  if (!flags["outputs"].empty()) Write(expected, flags["outputs"]);
  return wrong == 0 ? 0 : 1;
}

// Exits while threads create and run programs of the engine. The arguments are
// the paths of three files (the block, the schedule, and the sizes of the
// weights), and the way to exit.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cc/engine/engine_api.h"

namespace {

std::string Text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Job {
  std::string block, schedule;
  std::vector<std::vector<float>> values;
  std::vector<const float*> weights;
  std::vector<int64_t> sizes;
  std::vector<std::vector<float>> outputs;
};

// An exit handler that calls the engine. It is registered before the engine is
// used, so it runs after the exit handlers of oneDNN.
ios_program* the_program = nullptr;
void RunLate() {
  std::vector<float> input(16 * 64 * 64, 1.0f), output(16 * 64 * 64);
  const void* const inputs[] = {input.data()};
  void* const outputs[] = {output.data()};
  const int64_t shape[] = {1, 64, 64, 16};
  if (ios_program_run(the_program, inputs, shape, 1, outputs, 1) == 0) return;
  if (!std::strstr(ios_last_error(), "exiting")) std::_Exit(4);
}

// An exit handler that waits, and is registered in the same way. It gives other
// threads time to call the engine after the exit handlers of oneDNN.
void LingerLate() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

ios_program* Create(const Job& job) {
  return ios_program_create(job.block.c_str(), job.schedule.c_str(),
                            job.weights.data(), job.sizes.data(),
                            job.weights.size(), "cpu");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  auto* const job = new Job;  // outlives the threads
  job->block = Text(argv[1]);
  job->schedule = Text(argv[2]);
  std::ifstream sizes(argv[3]);
  for (int64_t size; sizes >> size;) {
    job->sizes.push_back(size);
    job->values.emplace_back(size, 0.01f);
  }
  for (const auto& value : job->values) job->weights.push_back(value.data());
  const std::string how = argv[4];
  if (how == "handlers") std::atexit(RunLate);
  std::atexit(LingerLate);
  ios_program* const program = the_program = Create(*job);
  if (!program) return 3;
  for (int i = 0; i < 8; ++i) {
    std::thread([job, program, i] {
      std::vector<float> input(16 * 64 * 64, 1.0f), output(16 * 64 * 64);
      const void* const inputs[] = {input.data()};
      void* const outputs[] = {output.data()};
      for (;;) {
        const int64_t shape[] = {1, 64, 64, 16};
        if (i > 3) {
          ios_program_run(program, inputs, shape, 1, outputs, 1);
        } else if (ios_program* other = Create(*job)) {
          ios_program_delete(other);
        }
      }
    }).detach();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (how == "exit") std::thread([] { std::exit(0); }).join();
  return 0;
}

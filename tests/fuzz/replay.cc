// Runs a fuzzer without libFuzzer: replay RUNS FILE... The fuzzer gets the
// content of each file, and then RUNS random mutations of these files. The
// mutations are the same in each replay.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

constexpr size_t kMaxBytes = 4096;

extern "C" {

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
[[gnu::weak]] size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                             size_t max_size, unsigned seed);

// Replaces some bytes by random ones, and adds or removes a few at the end.
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  static std::mt19937 random(1);
  const size_t changed =
      std::clamp<size_t>(size + random() % 9, 5, max_size) - 4;
  for (size_t i = size; i < changed; ++i) data[i] = random();
  for (int i = 0; i < 4; ++i) data[random() % changed] = random();
  return changed;
}

}  // extern "C"

int main(int argc, char** argv) {
  std::vector<std::vector<uint8_t>> corpus;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(corpus.back().data(), corpus.back().size());
  }
  if (corpus.empty()) return 2;
  const auto mutate =
      LLVMFuzzerCustomMutator
          ? LLVMFuzzerCustomMutator
          : [](uint8_t* data, size_t size, size_t max_size, unsigned) {
              return LLVMFuzzerMutate(data, size, max_size);
            };
  std::mt19937 random(1);
  const int runs = std::atoi(argv[1]);
  for (int run = 0; run < runs; ++run) {
    std::vector<uint8_t> data = corpus[random() % corpus.size()];
    size_t size = data.size();
    data.resize(kMaxBytes);
    for (int i = random() % 3; i >= 0; --i) {
      size = mutate(data.data(), size, kMaxBytes, random());
    }
    LLVMFuzzerTestOneInput(data.data(), size);
  }
  std::printf("ok %zu files, %d mutations\n", corpus.size(), runs);
}

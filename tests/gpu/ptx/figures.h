// Counts how the warps of a kernel access memory. For each instruction of a
// warp, these are the sectors of global memory, and the steps of shared memory,
// that the instruction needs.
#ifndef IOS_TF_TESTS_PTX_FIGURES_H_
#define IOS_TF_TESTS_PTX_FIGURES_H_

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ptx {

class Figures {
 public:
  enum Kind { kLoad, kStore, kShared };
  static constexpr int kKinds = 3;

  Figures(std::string kernel, std::string macros)
      : kernel_(std::move(kernel)), macros_(std::move(macros)) {}

  // Appends a line to the file that PTX_FIGURES names, when the process ends.
  ~Figures() {
    const char* path = std::getenv("PTX_FIGURES");
    if (!path || !*path || blocks_ == 0) return;
    if (std::FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", Json());
      std::fclose(file);
    }
  }

  // Threads of a warp run an instruction together, so their n-th accesses by
  // one instruction (`site`) are one access of the warp.
  void Count(Kind kind, int site, unsigned thread, unsigned n, uint64_t address,
             uint64_t bytes) {
    accesses_.push_back({kind, site, thread / 32, n, address, bytes});
  }

  void EndBlock() {
    if (accesses_.empty()) return;
    ++blocks_;
    std::sort(
        accesses_.begin(), accesses_.end(),
        [](const Access& a, const Access& b) { return a.Key() < b.Key(); });
    for (auto begin = accesses_.begin(); begin != accesses_.end();) {
      auto end = begin;
      while (end != accesses_.end() && end->Key() == begin->Key()) ++end;
      Add(&*begin, &*begin + (end - begin));
      begin = end;
    }
    accesses_.clear();
  }

  // Returns all counts so far.
  const char* Json() {
    EndBlock();
    static const char* const kNames[] = {"loads", "stores", "shared"};
    std::string& text = json_ = "{\"kernel\": \"" + kernel_ +
                                "\", \"macros\": \"" + macros_ +
                                "\", \"blocks\": " + std::to_string(blocks_);
    for (int kind = 0; kind < kKinds; ++kind) {
      const Total& total = totals_[kind];
      text += std::string(", \"") + kNames[kind] +
              "\": {\"accesses\": " + std::to_string(total.accesses) +
              ", \"bytes\": " + std::to_string(total.bytes) +
              ", \"steps\": " + std::to_string(total.steps) + "}";
    }
    text += "}";
    return text.c_str();
  }

 private:
  struct Access {
    Kind kind;
    int site;
    unsigned warp, n;
    uint64_t address, bytes;

    std::tuple<int, unsigned, unsigned> Key() const { return {site, warp, n}; }
  };
  struct Total {
    uint64_t accesses, bytes, steps;
  };

  void Add(const Access* begin, const Access* end) {
    Total& total = totals_[begin->kind];
    ++total.accesses;
    if (begin->kind == kShared) {
      total.steps += BankSteps(begin, end);
    } else {
      AddSectors(begin, end, &total);
    }
  }

  // Global memory is read and written in sectors of 32 bytes. Bytes that
  // several threads read count once.
  static void AddSectors(const Access* begin, const Access* end, Total* total) {
    std::map<uint64_t, std::bitset<32>> sectors;
    for (; begin != end; ++begin) {
      for (uint64_t i = 0; i < begin->bytes; ++i) {
        const uint64_t address = begin->address + i;
        sectors[address / 32].set(address % 32);
      }
    }
    total->steps += sectors.size();
    for (const auto& [sector, bytes] : sectors) total->bytes += bytes.count();
  }

  // Each of 32 banks serves one word at a time, to any number of threads.
  static uint64_t BankSteps(const Access* begin, const Access* end) {
    std::array<std::set<uint64_t>, 32> words;
    for (; begin != end; ++begin) {
      for (uint64_t word = begin->address / 4;
           word <= (begin->address + begin->bytes - 1) / 4; ++word) {
        words[word % 32].insert(word);
      }
    }
    size_t steps = 0;
    for (const auto& bank : words) steps = std::max(steps, bank.size());
    return steps;
  }

  const std::string kernel_, macros_;
  std::string json_;
  std::vector<Access> accesses_;  // of the running block
  uint64_t blocks_ = 0;
  Total totals_[kKinds] = {};
};

}  // namespace ptx

#endif  // IOS_TF_TESTS_PTX_FIGURES_H_

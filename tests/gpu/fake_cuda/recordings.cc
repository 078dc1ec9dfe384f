#include "recordings.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "graph_text.h"
#include "machine.h"

namespace fake {
namespace {

using Recording = std::map<std::string, RecordedGraph>;  // by key

// Parses the name of an engine, such as "eng41_k2=3_k13=0".
bool ParseName(const std::string& name, Engine* engine) {
  std::istringstream in(name);
  const auto skip = [&](const char* text) {
    for (; *text; ++text) {
      if (in.get() != *text) in.setstate(std::ios::failbit);
    }
  };
  skip("eng");
  in >> engine->index;
  while (in && in.peek() == '_') {
    int type = 0;
    int64_t value = 0;
    skip("_k");
    in >> type;
    skip("=");
    in >> value;
    engine->knobs.push_back({static_cast<cudnnBackendKnobType_t>(type), value});
  }
  return engine->Name() == name;
}

// Parses a list of notes, such as "0,3". "-" is the empty list.
template <typename Note>
std::vector<Note> ParseNotes(const std::string& text) {
  std::vector<Note> notes;
  std::istringstream in(text);
  for (int note; in >> note; in.get()) notes.push_back(static_cast<Note>(note));
  return notes;
}

// Parses "NAME NUMERICAL-NOTES BEHAVIOR-NOTES WORKSPACE STATUS".
bool ParseEngine(std::istringstream& in, Engine* engine) {
  std::string name, numerical, behavior;
  int status = 0;
  in >> name >> numerical >> behavior >> engine->workspace >> status;
  engine->numerical = ParseNotes<cudnnBackendNumericalNote_t>(numerical);
  engine->behavior = ParseNotes<cudnnBackendBehaviorNote_t>(behavior);
  engine->status = static_cast<cudnnStatus_t>(status);
  return in && ParseName(name, engine);
}

// Parses a file that write_engines() in record.py has written. The format of
// its lines is described there.
bool Parse(std::ifstream in, Recording* recording) {
  RecordedGraph* graph = nullptr;
  if (!in) return false;
  for (std::string text; std::getline(in, text);) {
    std::istringstream line(text);
    std::string what, key;
    line >> what;
    if (what == "graph" && line >> key) {
      graph = &(*recording)[key];
    } else if (what == "engine" && graph) {
      graph->engines.emplace_back();
      if (!ParseEngine(line, &graph->engines.back())) return false;
    } else if (what == "mode" && graph) {
      int mode = 0;
      line >> mode;
      std::vector<size_t>& proposed = graph->proposed[mode];
      for (size_t i; line >> i;) {
        if (i >= graph->engines.size()) return false;
        proposed.push_back(i);
      }
    } else if (what != "cudnn") {
      return false;
    }
  }
  return true;
}

}  // namespace

const RecordedGraph* FindRecorded(const std::string& key, bool any) {
  // Each file is read once, because it does not change. Tests may use different
  // files.
  static auto* const recordings = new std::map<std::string, Recording>;
  const char* const path = std::getenv("FAKE_CUDNN_RECORDINGS");
  if (!path) return nullptr;
  const auto [recording, is_new] = recordings->try_emplace(path);
  if (is_new && !Parse(std::ifstream(path), &recording->second)) {
    Machine::Get().Violate(std::string("no recording of cuDNN: ") + path);
  }
  const auto found = recording->second.find(key);
  if (found != recording->second.end()) return &found->second;
  if (!any || recording->second.empty()) return nullptr;
  const size_t index = Hash(key) % recording->second.size();
  return &std::next(recording->second.begin(), index)->second;
}

}  // namespace fake

#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>

namespace fake {
namespace {

constexpr size_t kMaxViolations = 50;
constexpr size_t kMaxPending = 20000;
constexpr size_t kMaxFreed = 64;
constexpr size_t kCellBytes = 2;  // the smallest element
constexpr uintptr_t kAlignment = 256;

// The calls that this thread is in, one inside of the other, and the time for
// which the outermost call sleeps.
thread_local int calls = 0;
thread_local int64_t sleep_microseconds = 0;

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

void Join(Clock* clock, const Clock& other) {
  if (clock->size() < other.size()) clock->resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) {
    (*clock)[i] = std::max((*clock)[i], other[i]);
  }
}

void ResetTouched(Buffer* buffer) {
  buffer->low = std::numeric_limits<unsigned long>::max();
  buffer->high = 0;
  buffer->written_twice = buffer->shared = false;
}

}  // namespace

Machine& Machine::Get() {
  static auto* machine = new Machine;
  return *machine;
}

Machine::Machine() {
  infos_.push_back({});
  reader_sets_.push_back({});
  static char nowhere[64];
  tracker_.find = &Machine::Find;
  tracker_.nowhere = nowhere;
  tracker_.violate = [](const char* text) { Get().Violate(text); };
  if (const char* options = std::getenv("FAKE_CUDA_OPTIONS")) {
    std::istringstream in(options);
    for (std::string option; std::getline(in, option, ',');) {
      const size_t equals = option.find('=');
      if (equals != std::string::npos) {
        SetOption(option.substr(0, equals),
                  std::atoll(option.c_str() + equals + 1));
      }
    }
  }
}

int64_t Machine::Option(const std::string& name, int64_t otherwise) const {
  const auto it = options_.find(name);
  return it == options_.end() ? otherwise : it->second;
}

void Machine::SetOption(const std::string& name, int64_t value) {
  options_[name] = value;
  if (name == "seed") random_.seed(value);
}

bool Machine::Planted(const std::string& what) {
  const auto it = planted_.find(what);
  if (it == planted_.end() || it->second-- > 0) return false;
  planted_.erase(it);
  Count("planted " + what);
  return true;
}

void Machine::Violate(const std::string& text) {
  Count("violations");
  if (violations_.size() < kMaxViolations &&
      std::find(violations_.begin(), violations_.end(), text) ==
          violations_.end()) {
    violations_.push_back(text);
  }
}

bool Machine::Unmade(const char* kind, const void* object) {
  if (live_[kind].erase(object)) return true;
  Violate(std::string("a ") + kind + " was destroyed that does not exist");
  return false;
}

bool Machine::Exists(const char* kind, const void* object) const {
  const auto it = live_.find(kind);
  return it != live_.end() && it->second.count(object);
}

std::string Machine::Report() const {
  std::ostringstream out;
  out << "{\"violations\": [";
  for (size_t i = 0; i < violations_.size(); ++i) {
    out << (i ? ", " : "") << Quoted(violations_[i]);
  }
  out << "], \"counts\": {";
  const char* comma = "";
  for (const auto& [what, n] : counts_) {
    out << comma << Quoted(what) << ": " << n;
    comma = ", ";
  }
  out << "}, \"live\": {\"bytes\": " << allocated_;
  for (const auto& [kind, objects] : live_) {
    if (!objects.empty()) out << ", " << Quoted(kind) << ": " << objects.size();
  }
  out << "}, \"pending\": " << pending_ << ", \"planted\": " << planted_.size()
      << "}";
  return out.str();
}

void Machine::Reset() {
  violations_.clear();
  counts_.clear();
  planted_.clear();
}

void Machine::Prepare(int64_t microseconds) {
  const int64_t costs = Option("host_costs");
  if (costs == 0) return;
  Spend(microseconds);
  Count("host microseconds", microseconds);
  if (costs == 2) sleep_microseconds += microseconds;
}

Call::Call(Machine* machine) : machine_(machine) {
  machine_->mutex.lock();
  ++calls;
}

Call::~Call() {
  const int64_t wait = --calls == 0 ? std::exchange(sleep_microseconds, 0) : 0;
  if (wait > 0) machine_->Count("microseconds of sleep", wait);
  machine_->mutex.unlock();
  if (wait > 0) std::this_thread::sleep_for(std::chrono::microseconds(wait));
}

// --- memory

void* Machine::Allocate(int64_t bytes, CUcontext context) {
  // About as much memory as TensorFlow leaves free on a GPU.
  constexpr int64_t kBytes = int64_t{1800} << 20;
  if (allocated_ + bytes > Option("memory_limit", kBytes)) return nullptr;
  const auto share = planted_.find("share_memory");
  if (share != planted_.end() && share->second == bytes) {
    for (auto& [address, buffer] : buffers_) {
      if (!buffer->live || static_cast<int64_t>(buffer->bytes) != bytes)
        continue;
      planted_.erase(share);
      Count("planted share_memory");
      ++buffer->owners;
      return buffer->base;
    }
  }
  auto buffer = std::make_unique<Buffer>();
  buffer->name = "allocation " + std::to_string(++allocations_) + " of " +
                 std::to_string(bytes) + " bytes";
  // Inert work does not access memory, so no memory is needed.
  if (Option("inert")) bytes = 0;
  buffer->memory.reset(new char[bytes + 3 * kAlignment]);
  // The address has exactly the alignment that the driver promises, to find
  // code that needs a larger one.
  const uintptr_t start = reinterpret_cast<uintptr_t>(buffer->memory.get());
  uintptr_t base = (start + kAlignment - 1) / kAlignment * kAlignment;
  if (base % (2 * kAlignment) == 0) base += kAlignment;
  buffer->base = reinterpret_cast<char*>(base);
  buffer->bytes = bytes;
  buffer->context = context;
  std::memset(buffer->base, 0xff, bytes);  // not a number in every element type
  const size_t words = bytes / (64 * kCellBytes) + 1;
  buffer->bits.resize(2 * words);
  buffer->read = buffer->bits.data();
  buffer->written = buffer->bits.data() + words;
  buffer->cells.resize((bytes + kCellBytes - 1) / kCellBytes);
  ResetTouched(buffer.get());
  allocated_ += bytes;
  Made("allocation", buffer->base);
  buffers_[base] = std::move(buffer);
  return reinterpret_cast<void*>(base);
}

bool Machine::Free(void* pointer) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const auto it = buffers_.find(address);
  if (it == buffers_.end() || !it->second->live) {
    Violate("memory was freed that is not allocated");
    return false;
  }
  Buffer* const buffer = it->second.get();
  if (--buffer->owners > 0) return true;
  Unmade("allocation", buffer->base);
  allocated_ -= buffer->bytes;
  buffer->live = false;
  std::vector<Cell>().swap(buffer->cells);
  std::vector<unsigned long>().swap(buffer->bits);
  std::fill(std::begin(tracker_.slots), std::end(tracker_.slots), nullptr);
  // The address is not reused for a while, so that accesses to the freed memory
  // are found.
  freed_.push_back(address);
  if (freed_.size() > kMaxFreed) {
    buffers_.erase(freed_.front());
    freed_.erase(freed_.begin());
  }
  return true;
}

Buffer* Machine::FindBuffer(const void* pointer, size_t bytes, bool write) {
  const char* const begin = static_cast<const char*>(pointer);
  auto it = buffers_.upper_bound(reinterpret_cast<uintptr_t>(pointer));
  const std::string who =
      (running_ ? running_->work.name : std::string("the host")) +
      (write ? " writes " : " reads ") + std::to_string(bytes) + " bytes ";
  if (it == buffers_.begin()) {
    Violate(who + "outside of device memory");
    return nullptr;
  }
  Buffer* const buffer = std::prev(it)->second.get();
  if (begin >= buffer->base + buffer->bytes) {
    Violate(who + "outside of device memory");
    return nullptr;
  }
  if (!buffer->live) {
    Violate(who + "of freed " + buffer->name);
    return nullptr;
  }
  if (running_ && buffer->context != running_->work.context) {
    Violate(who + "of another context's " + buffer->name);
    return nullptr;
  }
  if (begin + bytes > buffer->base + buffer->bytes) {
    Violate(who + "across the end of " + buffer->name);
    return nullptr;
  }
  return buffer;
}

IosHostBuffer* Machine::Find(const void* pointer, unsigned long bytes,
                             bool write) {
  Machine& machine = Get();
  const bool known = bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
  if (!known || reinterpret_cast<uintptr_t>(pointer) % bytes != 0) {
    machine.Violate(machine.running_->work.name + " accesses " +
                    std::to_string(bytes) + " bytes that are not aligned");
    return nullptr;
  }
  return machine.FindBuffer(pointer, bytes, write);
}

void Machine::Touch(const void* pointer, size_t bytes, bool write) {
  if (bytes == 0) return;
  Buffer* const buffer = FindBuffer(pointer, bytes, write);
  if (!buffer) return;
  const size_t offset = static_cast<const char*>(pointer) - buffer->base;
  if (offset % kCellBytes != 0) {
    Violate(running_->work.name + " accesses an odd address");
    return;
  }
  unsigned long* const bits = write ? buffer->written : buffer->read;
  const unsigned long* const others = write ? buffer->read : buffer->written;
  const size_t end = (offset + bytes + kCellBytes - 1) / kCellBytes;
  for (size_t bit = offset / kCellBytes; bit < end;) {
    const size_t in_word = std::min<size_t>(64 - bit % 64, end - bit);
    const unsigned long mask = (in_word == 64 ? ~0ul : (1ul << in_word) - 1)
                               << (bit % 64);
    if (write && (bits[bit / 64] & mask)) buffer->written_twice = true;
    if (others[bit / 64] & mask) buffer->shared = true;
    bits[bit / 64] |= mask;
    bit += in_word;
  }
  buffer->low = std::min<unsigned long>(buffer->low, offset);
  buffer->high = std::max<unsigned long>(buffer->high, offset + bytes);
}

// --- order

uint32_t Machine::NewChain() {
  // A retired chain may be reused if the host has waited for its end, because
  // all later work is ordered after it anyway.
  for (size_t i = 0; i < retired_.size(); ++i) {
    const uint32_t chain = retired_[i];
    if (sequences_[chain] == 0 || (chain < host_clock_.size() &&
                                   host_clock_[chain] >= sequences_[chain])) {
      retired_.erase(retired_.begin() + i);
      return chain;
    }
  }
  sequences_.push_back(0);
  return sequences_.size() - 1;
}

NodePtr Machine::Enqueue(Work work, uint32_t chain,
                         const std::vector<NodePtr>& after) {
  if (pending_ > kMaxPending) {
    while (pending_ > kMaxPending / 2) RunOne();
  }
  auto node = std::make_shared<Node>();
  node->work = std::move(work);
  node->chain = chain;
  node->id = infos_.size();
  node->clock = host_clock_;
  for (const NodePtr& other : after) {
    Join(&node->clock, other->clock);
    if (!other->done) {
      ++node->waits_for;
      other->next.push_back(node);
    }
  }
  timeline_.Add(node, host_time_, after);
  if (node->clock.size() <= chain) node->clock.resize(chain + 1);
  node->clock[chain] = ++sequences_[chain];
  infos_.push_back({chain, sequences_[chain], node->work.name});
  ++pending_;
  if (node->waits_for == 0) ready_.push_back(node);
  if (Option("eager")) RunUntil(node);
  return node;
}

void Machine::RunOne() {
  size_t pick = 0;
  switch (policy_) {
    case 0:
      pick = random_() % ready_.size();
      break;
    case 1:  // the newest node, which follows one branch as far as possible
      pick = ready_.size() - 1;
      break;
    default:
      break;
  }
  const NodePtr node = ready_[pick];
  ready_.erase(ready_.begin() + pick);
  Execute(node);
}

void Machine::RunUntil(const NodePtr& node) {
  policy_ = random_() % 3;
  while (!node->done) RunOne();
}

void Machine::RunAll() {
  policy_ = random_() % 3;
  while (pending_ > 0) RunOne();
}

void Machine::RunSome() {
  for (int i = random_() % 8; i >= 0 && pending_ > 0; --i) RunOne();
}

void Machine::Execute(const NodePtr& node) {
  if (node->work.run) {
    running_ = node.get();
    node->work.run();
    Account(*node);
    running_ = nullptr;
  }
  node->work.run = nullptr;  // frees the memory that the function holds
  node->done = true;
  --pending_;
  for (const NodePtr& next : node->next) {
    if (--next->waits_for == 0) ready_.push_back(next);
  }
  node->next.clear();
}

void Machine::HostSaw(const NodePtr& node) {
  Join(&host_clock_, node->clock);
  EndOf(node);
}

double Machine::EndOf(const NodePtr& node) {
  const double end = timeline_.EndOf(node);
  host_time_ = std::max(host_time_, end);
  return end;
}

void Machine::HostSawEverything() { Join(&host_clock_, sequences_); }

// --- the checker

bool Machine::Before(uint32_t id, const Node& node) const {
  const Info& info = infos_[id];
  return info.chain < node.clock.size() &&
         node.clock[info.chain] >= info.sequence;
}

uint32_t Machine::AddReader(uint32_t readers, const Node& node) {
  uint32_t& with_node = with_reader_[readers];
  if (with_node != 0) return with_node;
  std::vector<uint32_t> left;
  for (uint32_t reader : reader_sets_[readers]) {
    if (!Before(reader, node)) left.push_back(reader);
  }
  left.push_back(node.id);
  reader_sets_.push_back(std::move(left));
  return with_node = reader_sets_.size() - 1;
}

void Machine::Account(const Node& node) {
  with_reader_.clear();
  for (auto& [address, buffer] : buffers_) {
    if (buffer->live && buffer->low < buffer->high) {
      AccountBuffer(node, buffer.get());
    }
  }
}

void Machine::AccountBuffer(const Node& node, Buffer* buffer) {
  if (buffer->written_twice) {
    Violate(node.work.name + " writes bytes of " + buffer->name + " twice");
  }
  if (buffer->shared) {
    Violate(node.work.name + " reads and writes the same bytes of " +
            buffer->name);
  }
  const size_t first = buffer->low / kCellBytes / 64;
  const size_t last = (buffer->high - 1) / kCellBytes / 64;
  for (const bool write : {false, true}) {
    unsigned long* const bits = write ? buffer->written : buffer->read;
    // Finds sequences of set bits.
    size_t begin = 0;
    bool inside = false;
    for (size_t word = first; word <= last; ++word) {
      const unsigned long value = bits[word];
      if (value == (inside ? ~0ul : 0ul)) continue;
      for (size_t bit = 0; bit < 64; ++bit) {
        const bool set = value >> bit & 1;
        if (set == inside) continue;
        if (set) {
          begin = word * 64 + bit;
        } else {
          Visit(node, buffer, begin, word * 64 + bit, write);
        }
        inside = set;
      }
    }
    if (inside) Visit(node, buffer, begin, (last + 1) * 64, write);
  }
  std::fill(buffer->read + first, buffer->read + last + 1, 0);
  std::fill(buffer->written + first, buffer->written + last + 1, 0);
  ResetTouched(buffer);
}

void Machine::Visit(const Node& node, Buffer* buffer, size_t begin, size_t end,
                    bool write) {
  std::vector<Cell>& cells = buffer->cells;
  end = std::min(end, cells.size());
  const auto where = [&](size_t i) {
    return " byte " + std::to_string(i * kCellBytes) + " of " + buffer->name;
  };
  Cell seen, becomes;
  bool any = false;
  for (size_t i = begin; i < end; ++i) {
    const Cell cell = cells[i];
    if (any && cell == seen) {
      cells[i] = becomes;
      continue;
    }
    any = true;
    seen = becomes = cell;
    if (cell.writer != 0 && !Before(cell.writer, node)) {
      Violate(node.work.name + (write ? " writes" : " reads") + where(i) +
              " that " + infos_[cell.writer].name +
              " wrote, and is not ordered after it");
    }
    if (write) {
      for (uint32_t reader : reader_sets_[cell.readers]) {
        if (!Before(reader, node)) {
          Violate(node.work.name + " writes" + where(i) + " that " +
                  infos_[reader].name + " reads, and is not ordered after it");
        }
      }
      becomes = {node.id, 0};
    } else {
      if (cell.writer == 0) {
        Violate(node.work.name + " reads" + where(i) +
                " that nothing has written");
      }
      becomes.readers = AddReader(cell.readers, node);
    }
    cells[i] = becomes;
  }
}

}  // namespace fake

extern "C" {

// Returns the report as JSON. The text is valid until the thread's next call.
const char* fake_cuda_report() {
  thread_local std::string report;
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  report = machine.Report();
  return report.c_str();
}

// Removes all violations, counts and planted mistakes, but keeps the options.
void fake_cuda_reset() {
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  machine.Reset();
}

void fake_cuda_set(const char* option, int64_t value) {
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  machine.SetOption(option, value);
}

void fake_cuda_clear_options() {
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  machine.ClearOptions();
}

// The GNU C library's function, which std::thread::hardware_concurrency()
// calls. If LD_PRELOAD names this library, the option "cores" replaces the
// number of cores. The host's work only sleeps, so it needs no real cores.
int get_nprocs() {
  return fake::Machine::Get().Option("cores", sysconf(_SC_NPROCESSORS_ONLN));
}

// Plants a mistake, which the machine makes once:
//   drop_event: the n-th wait for an event from now is left out.
//   fail_launch: the n-th launch from now fails.
//   invalidate_capture: when the n-th piece of work from now is captured, the
//     capture becomes invalid, as if another thread had invalidated it.
//   share_memory: the next allocation of n bytes gets the memory of an existing
//     allocation of n bytes.
void fake_cuda_plant(const char* what, int n) {
  fake::Machine& machine = fake::Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  machine.Plant(what, n);
}

}  // extern "C"

#include "cc/engine/cpu/work_sampler.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace ios::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// The time in milliseconds after which a sample of whole runs, and a sample of
// one piece, starts no further run.
constexpr double kEnoughMs = 20, kEnoughOfPieceMs = 0.5;
// The target length of a piece: time slices of other processes are some
// milliseconds long.
constexpr double kPieceMs = 0.7;
constexpr std::chrono::milliseconds kPause(5);
constexpr int kTries = 2;  // for each piece
// After kDisturbedInARow disturbed samples in a row, the sampler expects
// disturbance. It then measures most samples in pieces at once, and tries to
// time whole runs of the work for only one in kTriedAllTheSame samples.
constexpr int kDisturbedInARow = 4, kTriedAllTheSame = 16;
// The number of samples that a sampler takes in pieces, which takes far longer
// than the work itself. All later samples are copies of the best of these.
constexpr int kRoundsInPieces = 2;
// Work that takes less than this many milliseconds is run once before it is
// timed, because threads may have gone to sleep while the counters were read.
constexpr double kShortMs = 1;
// A sample counts as disturbed if its CPU use (CPU time divided by wall time)
// is below this share of the highest CPU use. This finds threads that still
// wait for a core at the end of a sample, which the counters do not show.
constexpr double kUseOfHighest = 0.85;
// A sample in pieces counts as disturbed if disturbed pieces take more than
// this share of its time.
constexpr double kDisturbedPieces = 0.1;

double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

}  // namespace

bool WorkSampler::History::ExpectsDisturbance() {
  return in_a_row_ >= kDisturbedInARow && ++expected_ % kTriedAllTheSame != 0;
}

Sample WorkSampler::Take(int number) {
  // The work was already measured in pieces kRoundsInPieces times. More rounds
  // would take long and add little, so the sampler returns the best of these
  // latencies again. It marks the sample as disturbed, because an old latency
  // does not show that the machine is quiet now.
  if (rounds_in_pieces_ == kRoundsInPieces) return {best_ms_in_pieces_, true};
  Sample sample{std::numeric_limits<double>::infinity(), true};
  if (!history_->ExpectsDisturbance()) {
    if (warmup_ > 0) Time(&whole_, warmup_, kEnoughMs);
    warmup_ = 0;
    sample = Time(&whole_, number, kEnoughMs);
    history_->Add(sample.disturbed);
    if (!sample.disturbed) return sample;
  }
  ++rounds_in_pieces_;
  Sample in_pieces = TakeInPieces(number);
  if (in_pieces.disturbed && in_pieces.ms > sample.ms) in_pieces = sample;
  best_ms_in_pieces_ = rounds_in_pieces_ == 1
                           ? in_pieces.ms
                           : std::min(best_ms_in_pieces_, in_pieces.ms);
  return in_pieces;
}

Sample WorkSampler::Time(PartRange* piece, int number, double enough_ms) {
  const ResourceUse before = meter_->Read();
  if (piece->ms > 0 && piece->ms < kShortMs) run_(piece->begin, piece->end);
  const Clock::time_point start = Clock::now();
  int runs = 0;
  double elapsed = 0;
  while (runs < number && elapsed < enough_ms) {
    run_(piece->begin, piece->end);
    ++runs;
    elapsed = Since(start);
  }
  const ResourceUse after = meter_->Read();
  Sample sample{elapsed / std::max(runs, 1), false};
  piece->ms = piece->ms > 0 ? std::min(piece->ms, sample.ms) : sample.ms;
  const double use = static_cast<double>(after.cpu_ns - before.cpu_ns) /
                     static_cast<double>(after.wall_ns - before.wall_ns);
  piece->highest_use = std::max(piece->highest_use, use);
  sample.disturbed = use < kUseOfHighest * piece->highest_use ||
                     IsDisturbed(before, after, Threads::kOnePerCore);
  return sample;
}

Sample WorkSampler::TakeInPieces(int number) {
  if (pieces_.empty()) CutIntoPieces();
  Sample sum;
  double disturbed_ms = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const PartRange& previous = pieces_[(i > 0 ? i : pieces_.size()) - 1];
    Sample best{std::numeric_limits<double>::infinity(), true};
    for (int tries = 0; tries < kTries && best.disturbed; ++tries) {
      std::this_thread::sleep_for(kPause);
      run_(previous.begin, previous.end);
      const Sample sample = Time(&pieces_[i], number, kEnoughOfPieceMs);
      if (!sample.disturbed || sample.ms < best.ms) best = sample;
    }
    sum.ms += best.ms;
    if (best.disturbed) disturbed_ms += best.ms;
  }
  sum.disturbed = disturbed_ms > kDisturbedPieces * sum.ms;
  return sum;
}

void WorkSampler::CutIntoPieces() {
  if (parts_ == 1) {
    pieces_ = {whole_};
    return;
  }
  PartRange piece;
  for (int part = 0; part < parts_; ++part) {
    double ms = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 2; ++run) {
      const Clock::time_point start = Clock::now();
      run_(part, part + 1);
      ms = std::min(ms, Since(start));
    }
    piece.ms += ms;
    piece.end = part + 1;
    if (piece.ms < kPieceMs && piece.end < parts_) continue;
    pieces_.push_back(piece);
    piece = {piece.end, piece.end, 0, 0};
  }
}

}  // namespace ios::cpu

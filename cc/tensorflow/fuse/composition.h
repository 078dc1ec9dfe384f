// Compositions: operators that together compute one function of one tensor.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_COMPOSITION_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_COMPOSITION_H_

#include <algorithm>
#include <set>
#include <vector>

#include "cc/tensorflow/fuse/operator_graph.h"

namespace ios::tf {

// Operators of which only the last one's result is read elsewhere.
struct Composition {
  TensorRef input;
  std::vector<int> operators;  // the last one first
};

// Returns whether operator `i` computes each element by itself, from constants
// and from tensors of its output's shape.
bool IsElementwise(const OperatorGraph& ops, int i);

// Replaces the whole composition by operator `by`, which gets the name of the
// last operator.
void ReplaceComposition(OperatorGraph& ops, const Composition& composition,
                        Operator by, std::vector<Weight> weights);

// `next` is the last operator that can join a composition, or -1. `read` are
// the tensors that the composition reads.
struct Frontier {
  int next;
  std::vector<TensorRef> read;
};
template <typename Joins>
Frontier FrontierOf(OperatorGraph& ops, const std::vector<int>& members,
                    Joins joins) {
  const auto inside = [&](int k) {
    return std::find(members.begin(), members.end(), k) != members.end();
  };
  std::set<TensorRef> read;
  int next = -1;
  for (int member : members) {
    for (const TensorRef& t : ops[member].inputs) {
      const int producer = ops.Producer(t);
      if (producer >= 0 && inside(producer)) continue;
      read.insert(t);
      if (producer > next && joins(producer) &&
          ops.Device(producer) == ops.Device(members[0]) &&
          ops.AllUsers(producer, inside)) {
        next = producer;
      }
    }
  }
  return {next, {read.begin(), read.end()}};
}

// Returns the largest composition that ends with operator `i`, whose operators
// satisfy joins(k), and that satisfies matches(composition). Returns a
// composition without operators if there is none. Calls matches() for larger
// and larger compositions.
template <typename Joins, typename Matches>
Composition LargestComposition(OperatorGraph& ops, int i, Joins joins,
                               Matches matches) {
  constexpr size_t kMostOperators = 16;
  Composition composition{{}, {i}}, largest;
  if (!joins(i)) return largest;
  std::vector<int>& members = composition.operators;
  while (members.size() < kMostOperators) {
    const Frontier frontier = FrontierOf(ops, members, joins);
    const bool composed =
        members.size() > 1 || ops[i].kind == ImportedOperator::Kind::kSelect;
    if (frontier.read.size() == 1 && composed) {
      composition.input = frontier.read[0];
      if (matches(composition)) largest = composition;
    }
    if (frontier.next < 0) break;
    members.push_back(frontier.next);
  }
  return largest;
}

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_COMPOSITION_H_

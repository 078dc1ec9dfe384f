// Compositions: sets of operators that together compute a function of one
// tensor, such as x * sigmoid(x).
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_COMPOSITION_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_COMPOSITION_H_

#include <algorithm>
#include <set>
#include <vector>

#include "cc/tensorflow/fuse/operator_graph.h"

namespace ios::tf {

// The operators of a composition. Only the last operator's output is read by
// other operators.
struct Composition {
  TensorRef input;
  std::vector<int> operators;  // the last one first
};

// Returns whether operator `i` computes each output element from constants and
// from the elements at the same position of its inputs, which have the shape of
// the output.
bool IsElementwise(const OperatorGraph& ops, int i);

// Replaces the whole composition by operator `by`, which gets the name of the
// last operator.
void ReplaceComposition(OperatorGraph& ops, const Composition& composition,
                        Operator by, std::vector<Weight> weights);

// The operators before a composition, which is extended towards the graph's
// inputs. `read` has the tensors that the composition reads. `next` is the
// operator to add next: the last of the operators that compute these tensors,
// or -1 if none of them can be added.
struct Frontier {
  int next;
  std::vector<TensorRef> read;
};
// joins(k) says whether operator k may be part of the composition.
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

// Returns the largest composition that ends with operator `i` and satisfies
// matches(composition), and whose operators k all satisfy joins(k). Returns a
// composition without operators if none exists. Calls matches() for larger and
// larger compositions.
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

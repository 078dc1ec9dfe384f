// Compositions: operators that together compute one function of one tensor.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_COMPOSITION_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_COMPOSITION_H_

#include <algorithm>
#include <set>
#include <vector>

#include "cc/tensorflow/fuse/operator_graph.h"

namespace ios::tf {

// Operators of which only the last result is read elsewhere.
struct Composition {
  TensorRef input;
  std::vector<int> operators;  // the last one first
};

// Whether it computes each element alone, of tensors of its output's shape and
// of constants.
bool IsElementwise(const OperatorGraph& ops, int i);

// Operator `by`, named as the composition's last, instead of all of it.
void ReplaceComposition(OperatorGraph& ops, const Composition& composition,
                        Operator by, std::vector<Weight> weights);

// The last operator that can join, or -1; and what the composition reads.
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

// The largest composition that ends with operator `i`, of operators that
// joins(k), and for which matches(composition); of no operators if there is
// none. matches() is asked for larger and larger ones.
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

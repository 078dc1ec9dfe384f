#include "cc/tensorflow/partition/levels.h"

#include <algorithm>
#include <set>
#include <string>

namespace ios::tf {
namespace {

// A graph whose items are the operators and the nodes that do not belong to an
// operator.
class Contraction {
 public:
  explicit Contraction(const Partition& partition)
      : partition_(partition), graph_(partition.graph()) {
    const int num_operators = partition.operators.size();
    num_items_ = num_operators + graph_.size();
    item_of_.resize(graph_.size());
    for (int i = 0; i < graph_.size(); ++i) item_of_[i] = num_operators + i;
    covered_.assign(graph_.size(), false);
    for (int k = 0; k < num_operators; ++k) {
      for (int i : partition.operators[k].nodes) {
        covered_[i] = true;
        item_of_[i] = k;
      }
    }
    for (int k = 0; k < num_operators; ++k) {
      item_of_[partition.operators[k].output.node] = k;
    }
  }

  std::vector<int> Levels() {
    const int num_operators = partition_.operators.size();
    std::vector<std::vector<int>> readers(num_items_);
    std::vector<int> missing(num_items_, 0);
    for (int item = 0; item < num_items_; ++item) {
      for (int from : Dependencies(item)) {
        readers[from].push_back(item);
        ++missing[item];
      }
    }
    std::vector<int> level(num_items_, 0), open;
    std::vector<bool> after_operator(num_items_, false);
    for (int item = 0; item < num_items_; ++item) {
      if (missing[item] == 0) open.push_back(item);
    }
    size_t done = 0;
    for (; done < open.size(); ++done) {
      const int from = open[done];
      for (int to : readers[from]) {
        int next = level[from];
        if (to < num_operators) {
          const bool leaves = from < num_operators ? !AreAlike(from, to)
                                                   : bool{after_operator[from]};
          if (leaves) ++next;
        } else if (from < num_operators || after_operator[from]) {
          after_operator[to] = true;
        }
        level[to] = std::max(level[to], next);
        if (--missing[to] == 0) open.push_back(to);
      }
    }
    if (done != static_cast<size_t>(num_items_)) return {};
    level.resize(num_operators);
    return level;
  }

 private:
  // Returns whether a region may contain both operators.
  bool AreAlike(int k, int other) const {
    return Device(k) == Device(other) &&
           partition_.operators[k].dtype == partition_.operators[other].dtype;
  }
  const std::string& Device(int k) const {
    return graph_.node(partition_.operators[k].output.node).device();
  }

  std::set<int> Dependencies(int item) const {
    const int num_operators = partition_.operators.size();
    std::set<int> result;
    if (item < num_operators) {
      const ImportedOperator& op = partition_.operators[item];
      for (const TensorRef& t : op.inputs) Add(t, &result);
      for (int i : op.nodes) AddControls(i, &result);
    } else if (const int i = item - num_operators; !covered_[i]) {
      for (const TensorRef& t : graph_.inputs(i)) {
        const std::string& op = graph_.node(t.node).op();
        if (op == "NextIteration" || op == "RefNextIteration") continue;
        Add(graph_.Resolve(t), &result);
      }
      AddControls(i, &result);
    }
    result.erase(item);
    return result;
  }
  void Add(TensorRef tensor, std::set<int>* result) const {
    const auto it = partition_.producer.find(tensor);
    result->insert(it != partition_.producer.end() ? it->second
                                                   : item_of_[tensor.node]);
  }
  void AddControls(int i, std::set<int>* result) const {
    for (int c : graph_.WaitsFor(i)) result->insert(item_of_[c]);
  }

  const Partition& partition_;
  const GraphView& graph_;
  int num_items_ = 0;
  std::vector<int> item_of_;  // by node; an operator for its nodes
  std::vector<bool> covered_;
};

}  // namespace

std::vector<int> FindLevels(const Partition& partition) {
  return Contraction(partition).Levels();
}

}  // namespace ios::tf

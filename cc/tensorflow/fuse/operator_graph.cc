#include "cc/tensorflow/fuse/operator_graph.h"

#include <utility>

namespace ios::tf {

OperatorGraph::OperatorGraph(const AnalyzedGraph& analyzed,
                             std::vector<ImportedOperator> operators)
    : analyzed_(analyzed),
      ops_(std::move(operators)),
      alive_(ops_.size(), true) {
  std::set<int> recognised;
  for (size_t i = 0; i < ops_.size(); ++i) {
    producer_[ops_[i].output] = i;
    recognised.insert(ops_[i].nodes.begin(), ops_[i].nodes.end());
    for (const TensorRef& t : ops_[i].inputs) users_[t].push_back(i);
  }
  // Finds the operators' outputs that are read by nodes that are not operators,
  // or from outside of the graph.
  for (const ImportedOperator& op : ops_) {
    const std::vector<int>& readers = graph().Consumers(op.output);
    if (graph().preserved(op.output.node) ||
        std::any_of(readers.begin(), readers.end(),
                    [&](int i) { return recognised.count(i) == 0; })) {
      external_.insert(op.output);
    }
  }
}

int OperatorGraph::Producer(TensorRef tensor) const {
  const auto it = producer_.find(tensor);
  return it == producer_.end() ? -1 : it->second;
}

const std::string& OperatorGraph::Device(int i) const {
  return graph().node(ops_[i].output.node).device();
}

int OperatorGraph::OnlyUser(int i) {
  const std::vector<int>& users = Users(i);
  return users.size() == 1 && external_.count(ops_[i].output) == 0 &&
                 Device(i) == Device(users[0])
             ? users[0]
             : -1;
}

void OperatorGraph::SetInputs(int i, std::vector<TensorRef> inputs) {
  for (const TensorRef& t : ops_[i].inputs) {
    std::vector<int>& users = users_[t];
    users.erase(std::find(users.begin(), users.end(), i));
  }
  ops_[i].inputs = std::move(inputs);
  for (const TensorRef& t : ops_[i].inputs) users_[t].push_back(i);
}

void OperatorGraph::Cover(int i, int other) {
  ops_[i].nodes.insert(ops_[i].nodes.end(), ops_[other].nodes.begin(),
                       ops_[other].nodes.end());
}

void OperatorGraph::Remove(int i) {
  SetInputs(i, {});
  producer_.erase(ops_[i].output);
  alive_[i] = false;
}

void OperatorGraph::TakeOver(int i, int next) {
  Cover(i, next);
  const TensorRef output = ops_[next].output;
  Remove(next);
  producer_.erase(ops_[i].output);
  ops_[i].output = output;
  producer_[output] = i;
}

void OperatorGraph::PushIntoUsers(int i) {
  const TensorRef input = ops_[i].inputs[0];
  const std::vector<int> users = Users(i);
  for (int user : std::set<int>(users.begin(), users.end())) {
    std::vector<TensorRef> inputs = ops_[user].inputs;
    std::replace(inputs.begin(), inputs.end(), ops_[i].output, input);
    SetInputs(user, std::move(inputs));
    Cover(user, i);
  }
  Remove(i);
}

}  // namespace ios::tf

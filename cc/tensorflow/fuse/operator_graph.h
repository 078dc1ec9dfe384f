// OperatorGraph: imported operators as a graph that rules of fusion change.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_OPERATOR_GRAPH_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_OPERATOR_GRAPH_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/import/importer.h"

namespace ios::tf {

// Operators have numbers, which they keep: removed ones are not alive.
class OperatorGraph {
 public:
  // Operators in a topological order.
  OperatorGraph(const GraphIndex& graph,
                std::vector<ImportedOperator> operators);

  const GraphIndex& graph() const { return graph_; }
  size_t size() const { return ops_.size(); }
  ImportedOperator& operator[](int i) { return ops_[i]; }
  const ImportedOperator& operator[](int i) const { return ops_[i]; }
  bool IsAlive(int i) const { return alive_[i]; }
  // Whether nodes that are no operators read the tensor, or others than the
  // graph's do.
  bool IsReadElsewhere(TensorRef t) const { return external_.count(t) > 0; }
  void SetReadElsewhere(TensorRef t) { external_.insert(t); }

  bool Is(int i, OperatorType type) const {
    return i >= 0 && ops_[i].kind == ImportedOperator::Kind::kOperator &&
           ops_[i].op.type == type;
  }
  bool IsReshape(int i) const {
    return ops_[i].kind == ImportedOperator::Kind::kReshape;
  }
  bool IsConvolution(int i) const {
    return i >= 0 && ops_[i].kind == ImportedOperator::Kind::kOperator &&
           ios::IsConvolution(ops_[i].op.type);
  }
  bool IsZeroPad(int i) const {
    return Is(i, OperatorType::kPad) && PadsWithZeros(ops_[i].op);
  }
  bool IsTransposed(int i) const {
    return Is(i, OperatorType::kConv2DTranspose);
  }
  bool IsActivation(int i, Activation activation) const {
    return Is(i, OperatorType::kActivation) &&
           ops_[i].op.activation == activation;
  }
  int Producer(TensorRef tensor) const;
  const std::vector<int>& Users(TensorRef t) { return users_[t]; }
  const std::vector<int>& Users(int i) { return users_[ops_[i].output]; }
  const std::string& Device(int i) const;
  // The only operator that reads i's output, once, and nothing else; or -1. It
  // is on i's device: operators stay where they are placed.
  int OnlyUser(int i);
  // Whether operators, all on i's device and that `fold` takes, are all that
  // read i's output.
  template <typename Predicate>
  bool AllUsers(int i, Predicate folds) {
    const std::vector<int>& users = Users(i);
    return !users.empty() && external_.count(ops_[i].output) == 0 &&
           std::all_of(users.begin(), users.end(), [&](int user) {
             return Device(user) == Device(i) && folds(user);
           });
  }
  bool HasEpilogue(int i) const {
    return ops_[i].op.residual || ops_[i].op.activation != Activation::kNone;
  }
  void SetInputs(int i, std::vector<TensorRef> inputs);
  void Cover(int i, int other);
  void Remove(int i);
  // `i` also does what `next`, which reads it, did.
  void TakeOver(int i, int next);
  // All of i's users read its first input instead and do what it did.
  void PushIntoUsers(int i);

 private:
  const GraphIndex& graph_;
  std::vector<ImportedOperator> ops_;
  std::vector<bool> alive_;
  std::map<TensorRef, int> producer_;
  std::map<TensorRef, std::vector<int>> users_;
  std::set<TensorRef> external_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_OPERATOR_GRAPH_H_

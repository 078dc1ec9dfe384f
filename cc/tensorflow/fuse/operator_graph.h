// OperatorGraph: a graph of imported operators that fusion rules change.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_OPERATOR_GRAPH_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_OPERATOR_GRAPH_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cc/tensorflow/import/importer.h"
#include "cc/tensorflow/shapes/analyzed_graph.h"

namespace ios::tf {

// Removing an operator does not change the numbers of other operators.
// IsAlive() is false for a removed operator.
class OperatorGraph {
 public:
  // Takes operators in a topological order.
  OperatorGraph(const AnalyzedGraph& analyzed,
                std::vector<ImportedOperator> operators);

  const GraphView& graph() const { return analyzed_.graph(); }
  const ShapeTable& shapes() const { return analyzed_.shapes(); }
  const LayoutMap& layouts() const { return analyzed_.layouts(); }
  size_t size() const { return ops_.size(); }
  ImportedOperator& operator[](int i) { return ops_[i]; }
  const ImportedOperator& operator[](int i) const { return ops_[i]; }
  bool IsAlive(int i) const { return alive_[i]; }
  // Returns whether the tensor is read by nodes that are not operators, or from
  // outside of the graph.
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
  // Returns the only reader of the output of operator `i`. Returns -1 if the
  // output has no reader or several, if the operator reads it twice, or if the
  // reader is on another device.
  int OnlyUser(int i);
  // Returns whether the output of operator `i` has readers, and all of them are
  // operators on the same device for which folds(reader) is true.
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
  // Makes operator `i` also compute what its reader `next` computed, and
  // removes `next`.
  void TakeOver(int i, int next);
  // Removes operator `i`. The operators that read its output now read its first
  // input, and also compute what `i` computed.
  void PushIntoUsers(int i);

 private:
  const AnalyzedGraph& analyzed_;
  std::vector<ImportedOperator> ops_;
  std::vector<bool> alive_;
  std::map<TensorRef, int> producer_;
  std::map<TensorRef, std::vector<int>> users_;
  std::set<TensorRef> external_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_OPERATOR_GRAPH_H_

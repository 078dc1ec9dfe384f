#include "cc/tensorflow/fuse/fusion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/broadcast.h"
#include "cc/tensorflow/import/activation_match.h"

namespace ios::tf {
namespace {

using Kind = ImportedOperator::Kind;

constexpr std::array<int64_t, 2> kOne = {1, 1};

bool All(const std::vector<float>& values, float wanted) {
  return std::all_of(values.begin(), values.end(), [&](float v) {
    return std::abs(v - wanted) <= 1e-6f * std::max(1.0f, std::abs(wanted));
  });
}

class Fuser {
 public:
  Fuser(const GraphIndex& graph, std::vector<ImportedOperator> operators)
      : graph_(graph), ops_(std::move(operators)), alive_(ops_.size(), true) {
    std::set<int> recognised;
    for (size_t i = 0; i < ops_.size(); ++i) {
      producer_[ops_[i].output] = i;
      recognised.insert(ops_[i].nodes.begin(), ops_[i].nodes.end());
      for (const TensorRef& t : ops_[i].inputs) users_[t].push_back(i);
    }
    // Read by nodes that are no operators, or from outside of the graph.
    for (const ImportedOperator& op : ops_) {
      const std::vector<int>& readers = graph_.Consumers(op.output);
      if (graph_.preserved(op.output.node) ||
          std::any_of(readers.begin(), readers.end(),
                      [&](int i) { return recognised.count(i) == 0; })) {
        external_.insert(op.output);
      }
    }
  }

  std::vector<ImportedOperator> Run() {
    AbsorbLayouts();
    ForEach(&Fuser::MoveReference);
    ForEach(&Fuser::ComposeRepeats);
    // Composite activations first: their additions and multiplications would
    // otherwise fold into convolutions.
    ForEach(&Fuser::DropUnread);
    ForEach(&Fuser::DropIdentityScale);
    ForEach(&Fuser::FuseActivation);
    ForEach(&Fuser::ComposeScales);
    ForEach(&Fuser::AbsorbCasts);
    ForEach(&Fuser::FuseDenseOfMaps);
    ForEach(&Fuser::KeepDims);
    ForEach(&Fuser::FlattenIntoMatMul);
    ForEach(&Fuser::ComposePads);
    ForEach(&Fuser::FoldSubsampling);
    ForEach(&Fuser::FuseSepConv);
    ForEach(&Fuser::FoldScale);
    ForEach(&Fuser::FoldResidual);
    ForEach(&Fuser::FoldActivation);
    ForEach(&Fuser::FoldPad);
    ForEach(&Fuser::FoldPreActivation);
    ForEach(&Fuser::Flatten);
    ForEach(&Fuser::FinishReshape);
    std::vector<ImportedOperator> result;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!alive_[i] || ops_[i].kind != Kind::kOperator) continue;
      NormalisePadding(&ops_[i]);
      std::sort(ops_[i].nodes.begin(), ops_[i].nodes.end());
      ops_[i].nodes.erase(
          std::unique(ops_[i].nodes.begin(), ops_[i].nodes.end()),
          ops_[i].nodes.end());
      result.push_back(std::move(ops_[i]));
    }
    // An operator's output node comes after those of its inputs' producers.
    std::vector<int> position(graph_.size());
    for (int k = 0; k < graph_.size(); ++k) position[graph_.order()[k]] = k;
    std::stable_sort(result.begin(), result.end(),
                     [&](const ImportedOperator& a, const ImportedOperator& b) {
                       return position[a.output.node] < position[b.output.node];
                     });
    return result;
  }

 private:
  // Applies `rule` to every operator, in order, until it applies nowhere.
  void ForEach(bool (Fuser::*rule)(int)) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t i = 0; i < ops_.size(); ++i) {
        if (alive_[i] && (this->*rule)(i)) changed = true;
      }
    }
  }

  bool Is(int i, OperatorType type) const {
    return i >= 0 && ops_[i].kind == Kind::kOperator && ops_[i].op.type == type;
  }
  bool IsReshape(int i) const { return ops_[i].kind == Kind::kReshape; }
  bool IsConvolution(int i) const {
    return i >= 0 && ops_[i].kind == Kind::kOperator &&
           ios::IsConvolution(ops_[i].op.type);
  }
  // Of two tensors.
  bool IsProduct(int i) const {
    return Is(i, OperatorType::kBinary) && ops_[i].inputs.size() == 2 &&
           ops_[i].op.function == BinaryFunction::kMultiply;
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
  int Producer(TensorRef tensor) const {
    const auto it = producer_.find(tensor);
    return it == producer_.end() ? -1 : it->second;
  }
  const std::vector<int>& Users(int i) { return users_[ops_[i].output]; }
  const std::string& Device(int i) const {
    return graph_.node(ops_[i].output.node).device();
  }
  // The only operator that reads i's output, once, and nothing else; or -1.
  // What is placed elsewhere stays there.
  int OnlyUser(int i) {
    const std::vector<int>& users = Users(i);
    return users.size() == 1 && external_.count(ops_[i].output) == 0 &&
                   Device(i) == Device(users[0])
               ? users[0]
               : -1;
  }
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

  void SetInputs(int i, std::vector<TensorRef> inputs) {
    for (const TensorRef& t : ops_[i].inputs) {
      std::vector<int>& users = users_[t];
      users.erase(std::find(users.begin(), users.end(), i));
    }
    ops_[i].inputs = std::move(inputs);
    for (const TensorRef& t : ops_[i].inputs) users_[t].push_back(i);
  }
  void Cover(int i, int other) {
    ops_[i].nodes.insert(ops_[i].nodes.end(), ops_[other].nodes.begin(),
                         ops_[other].nodes.end());
  }
  void Remove(int i) {
    SetInputs(i, {});
    producer_.erase(ops_[i].output);
    alive_[i] = false;
  }
  // `i` also does what `next`, which reads it, did.
  void TakeOver(int i, int next) {
    Cover(i, next);
    const TensorRef output = ops_[next].output;
    Remove(next);
    producer_.erase(ops_[i].output);
    ops_[i].output = output;
    producer_[output] = i;
  }
  // All of i's users read its first input instead and do what it did.
  void PushIntoUsers(int i) {
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

  // Operators read the tensor before a change of its layout, which only matters
  // outside of regions. A Transpose, say, that others read as well stays a node
  // of the graph. The last one first: it decides about those before it.
  void AbsorbLayouts() {
    for (int i = static_cast<int>(ops_.size()) - 1; i >= 0; --i) {
      if (ops_[i].kind != Kind::kLayout) continue;
      if (AllUsers(i, [](int) { return true; })) {
        PushIntoUsers(i);
        continue;
      }
      const TensorRef input = ops_[i].inputs[0];
      const std::vector<int> users = Users(i);
      for (int user : std::set<int>(users.begin(), users.end())) {
        std::vector<TensorRef> inputs = ops_[user].inputs;
        std::replace(inputs.begin(), inputs.end(), ops_[i].output, input);
        SetInputs(user, std::move(inputs));
      }
      Remove(i);
      external_.insert(input);
    }
  }

  // What an operator reads only for its size, it had better read where others
  // read it, too: not between a convolution and its bias.
  bool MoveReference(int i) {
    if (!ops_[i].op.like) return false;
    const TensorRef at = ops_[i].inputs.back();
    const int producer = Producer(at);
    if (producer < 0 || external_.count(at) > 0 || !KeepsSize(producer)) {
      return false;
    }
    int readers = 0;
    for (int user : users_[at]) {
      if (!ops_[user].op.like || ops_[user].inputs[0] == at) ++readers;
    }
    const TensorRef to = ops_[producer].inputs[0];
    const Shape* shape = graph_.shape(to);
    if (readers > 1 || !shape || shape->size() != 4) return false;
    SetInputs(i, {ops_[i].inputs[0], to});
    return true;
  }
  // Whether the output is as high and wide as the first input.
  bool KeepsSize(int i) const {
    const Operator& op = ops_[i].op;
    return Is(i, OperatorType::kScale) || Is(i, OperatorType::kActivation) ||
           (Is(i, OperatorType::kConv2D) && op.strides == kOne &&
            (op.padding.type == PaddingType::kSame ||
             (op.padding.type == PaddingType::kValid && op.kernel == kOne)));
  }

  // Cells that are repeated along one dimension after the other.
  bool ComposeRepeats(int i) {
    const auto repeats = [&](int k) {
      return Is(k, OperatorType::kResize) &&
             ops_[k].op.interpolation == Interpolation::kNearest &&
             ops_[k].op.coordinates == Coordinates::kHalfPixel &&
             ops_[k].op.output_size == std::array<int64_t, 2>{0, 0} &&
             !ops_[k].op.like;
    };
    const int next = repeats(i) ? OnlyUser(i) : -1;
    if (next < 0 || !repeats(next)) return false;
    for (int d : {0, 1}) ops_[i].op.factors[d] *= ops_[next].op.factors[d];
    TakeOver(i, next);
    return true;
  }

  // Keras computes batch norms and means of half-precision tensors in float32,
  // between two Casts. The engine computes in float32 inside of every operator.
  bool AbsorbCasts(int i) {
    if (ops_[i].kind != Kind::kCast || ops_[i].dtype != DataType::kFloat32) {
      return false;
    }
    std::vector<int> chain;
    int next = OnlyUser(i);
    while (Is(next, OperatorType::kScale) ||
           Is(next, OperatorType::kActivation) ||
           Is(next, OperatorType::kGlobalPool)) {
      chain.push_back(next);
      next = OnlyUser(next);
    }
    const tensorflow::DataType narrow = graph_.dtype(ops_[i].inputs[0]);
    if (chain.empty() || next < 0 || ops_[next].kind != Kind::kCast ||
        graph_.dtype(ops_[next].output) != narrow) {
      return false;
    }
    for (int k : chain) ops_[k].dtype = ops_[next].dtype;
    TakeOver(chain.back(), next);
    PushIntoUsers(i);
    return true;
  }

  // What only nodes read that another operator stands for.
  bool DropUnread(int i) {
    if (!Users(i).empty() || external_.count(ops_[i].output) > 0) return false;
    Remove(i);
    return true;
  }

  bool DropIdentityScale(int i) {
    if (!Is(i, OperatorType::kScale) || !All(ops_[i].weights[0].values, 1.0f) ||
        !All(ops_[i].weights[1].values, 0.0f)) {
      return false;
    }
    const int before = Producer(ops_[i].inputs[0]);
    if (before >= 0 && OnlyUser(before) == i &&
        ops_[before].kind == Kind::kOperator) {
      TakeOver(before, i);
      return true;
    }
    if (!AllUsers(i, [](int) { return true; })) return false;
    PushIntoUsers(i);
    return true;
  }

  // A composition of what computes each element alone, of one tensor, of which
  // only the last result is read elsewhere.
  struct Composition {
    TensorRef input;
    std::vector<int> operators;  // the last one first
  };

  bool IsElementwise(int i) const {
    if (i < 0) return false;
    const ImportedOperator& op = ops_[i];
    const bool computes =
        op.kind == Kind::kSelect || (op.kind == Kind::kOperator &&
                                     (op.op.type == OperatorType::kActivation ||
                                      op.op.type == OperatorType::kScale ||
                                      op.op.type == OperatorType::kAdd ||
                                      op.op.type == OperatorType::kBinary));
    const auto uniform = [](const Weight& weight) {
      const std::vector<float>& w = weight.values;
      return std::count(w.begin(), w.end(), w[0]) ==
             static_cast<int64_t>(w.size());
    };
    return computes &&
           std::all_of(op.weights.begin(), op.weights.end(), uniform) &&
           std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorRef t) {
             return graph_.same_shape(t, op.output);
           });
  }

  // Its values for those of its input.
  std::vector<float> Evaluate(const Composition& composition,
                              const std::vector<float>& samples) const {
    std::map<TensorRef, std::vector<float>> values = {
        {composition.input, samples}};
    std::vector<int> operators = composition.operators;
    std::sort(operators.begin(), operators.end());
    for (int i : operators) {
      const ImportedOperator& op = ops_[i];
      if (op.kind == Kind::kSelect) {
        values[op.output] = Selected(op, values);
        continue;
      }
      std::vector<float> result = values.at(op.inputs[0]);
      std::vector<std::vector<float>> others;
      for (size_t k = 1; k < op.inputs.size(); ++k) {
        others.push_back(values.at(op.inputs[k]));
      }
      if (op.op.type == OperatorType::kBinary && others.empty()) {
        others.emplace_back(result.size(), op.weights[0].values[0]);
        if (op.op.swapped) result.swap(others[0]);
      }
      const BinaryFunction function = op.op.type == OperatorType::kBinary
                                          ? op.op.function
                                          : BinaryFunction::kAdd;
      for (const std::vector<float>& other : others) {
        cpu::BinaryRow(function, result.data(), 1, other.data(), 1,
                       result.size(), result.data());
      }
      if (op.op.type == OperatorType::kScale) {
        const float scale = op.weights[0].values[0];
        const float shift = op.weights[1].values[0];
        for (float& v : result) v = v * scale + shift;
      }
      cpu::ActivateRow(result.data(), result.size(), op.op.activation,
                       result.data());
      values[op.output] = std::move(result);
    }
    return values.at(ops_[composition.operators[0]].output);
  }

  static std::vector<float> Selected(
      const ImportedOperator& op,
      const std::map<TensorRef, std::vector<float>>& values) {
    const Selection& selection = op.selection;
    const std::vector<float>& x = values.at(op.inputs[0]);
    const auto choice = [&](std::optional<float> number, size_t input) {
      return number ? std::vector<float>(x.size(), *number)
                    : values.at(op.inputs[input]);
    };
    std::vector<float> result = choice(selection.first, 1);
    const std::vector<float> second =
        choice(selection.second, selection.first ? 1 : 2);
    for (size_t k = 0; k < x.size(); ++k) {
      if (!selection.Holds(x[k])) result[k] = second[k];
    }
    return result;
  }

  // Activations that a graph writes as several operators: gelu, swish, mish,
  // hard_sigmoid … The largest composition that ends here and is one.
  bool FuseActivation(int i) {
    constexpr size_t kMostOperators = 16;
    if (!IsElementwise(i)) return false;
    Composition composition{{}, {i}}, fused;
    Activation activation;
    std::vector<int>& members = composition.operators;
    while (members.size() < kMostOperators) {
      const auto inside = [&](int k) {
        return std::find(members.begin(), members.end(), k) != members.end();
      };
      std::set<TensorRef> read;
      int next = -1;  // the last operator that can join
      for (int member : members) {
        for (const TensorRef& t : ops_[member].inputs) {
          const int producer = Producer(t);
          if (producer >= 0 && inside(producer)) continue;
          read.insert(t);
          if (producer > next && IsElementwise(producer) &&
              Device(producer) == Device(i) && AllUsers(producer, inside)) {
            next = producer;
          }
        }
      }
      const bool composed = members.size() > 1 || ops_[i].kind == Kind::kSelect;
      if (read.size() == 1 && composed) {
        composition.input = *read.begin();
        const std::optional<Activation> match =
            MatchActivation(Evaluate(composition, ActivationSamples()));
        if (match) {
          fused = composition;
          activation = *match;
        }
      }
      if (next < 0) break;
      members.push_back(next);
    }
    if (fused.operators.empty()) return false;
    const std::string name = std::move(ops_[i].op.name);
    ops_[i].kind = Kind::kOperator;
    ops_[i].op = Operator();
    ops_[i].op.name = name;
    ops_[i].op.type = OperatorType::kActivation;
    ops_[i].op.activation = activation;
    ops_[i].weights.clear();
    SetInputs(i, {fused.input});
    for (int k : fused.operators) {
      if (k == i) continue;
      Cover(i, k);
      Remove(k);
    }
    return true;
  }

  // Two scales in a row are one.
  bool ComposeScales(int i) {
    const int next = Is(i, OperatorType::kScale) ? OnlyUser(i) : -1;
    if (!Is(next, OperatorType::kScale)) return false;
    std::vector<float>& scale = ops_[i].weights[0].values;
    std::vector<float>& shift = ops_[i].weights[1].values;
    for (size_t c = 0; c < scale.size(); ++c) {
      const double s = ops_[next].weights[0].values[c],
                   t = ops_[next].weights[1].values[c];
      shift[c] = shift[c] * s + t;
      scale[c] = scale[c] * s;
    }
    TakeOver(i, next);
    return true;
  }

  // Keras computes Dense of [N,H,W,C] as a MatMul between two Reshapes: it is a
  // 1x1 convolution.
  bool FuseDenseOfMaps(int i) {
    if (!Is(i, OperatorType::kMatMul)) return false;
    const int before = Producer(ops_[i].inputs[0]), after = OnlyUser(i);
    if (before < 0 || after < 0 || !IsReshape(before) || !IsReshape(after) ||
        OnlyUser(before) != i) {
      return false;
    }
    const Shape* x = graph_.shape(ops_[before].inputs[0]);
    const Shape* y = graph_.shape(ops_[after].output);
    if (!x || !y || x->size() != 4 || y->size() != 4 ||
        x->back() != graph_.shape(ops_[before].output)->back() ||
        !graph_.same_dimensions(ops_[before].inputs[0], ops_[after].output, 0,
                                3)) {
      return false;
    }
    ops_[i].op.type = OperatorType::kConv2D;
    SetInputs(i, ops_[before].inputs);
    Cover(i, before);
    Remove(before);
    TakeOver(i, after);
    return true;
  }

  // A Reshape from [N,C] to [N,1,1,C] goes away if what computes [N,C], from
  // the global pooling on, can compute [N,1,1,C]: squeeze-and-excite with
  // Dense.
  bool KeepDims(int i) {
    if (!IsReshape(i)) return false;
    const Shape* x = graph_.shape(ops_[i].inputs[0]);
    const Shape* y = graph_.shape(ops_[i].output);
    if (!x || !y || x->size() != 2 || y->size() != 4 ||
        x->back() != y->back() ||
        !graph_.same_dimensions(ops_[i].inputs[0], ops_[i].output, 0, 1)) {
      return false;
    }
    std::vector<int> chain;
    int user = i;
    for (int k = Producer(ops_[i].inputs[0]);;
         k = Producer(ops_[k].inputs[0])) {
      if (k < 0 || OnlyUser(k) != user) return false;
      chain.push_back(k);
      user = k;
      if (Is(k, OperatorType::kGlobalPool)) break;
      if (IsReshape(k) && IsSqueeze(k)) break;
      if (!Is(k, OperatorType::kMatMul) && !Is(k, OperatorType::kActivation) &&
          !Is(k, OperatorType::kScale)) {
        return false;
      }
    }
    for (int k : chain) {
      if (Is(k, OperatorType::kMatMul)) ops_[k].op.type = OperatorType::kConv2D;
      if (Is(k, OperatorType::kGlobalPool)) ops_[k].op.keep_dims = true;
    }
    TakeOver(chain[0], i);
    if (IsReshape(chain.back())) PushIntoUsers(chain.back());
    return true;
  }

  // Whether a Reshape makes [N,C] of [N,1,1,C].
  bool IsSqueeze(int i) const {
    const TensorRef from = ops_[i].inputs[0], to = ops_[i].output;
    const Shape *x = graph_.shape(from), *y = graph_.shape(to);
    return x && y && x->size() == 4 && y->size() == 2 && (*x)[1] == 1 &&
           (*x)[2] == 1 && graph_.fixed_size(from) &&
           graph_.same_dimensions(from, to, 0, 1);
  }

  // A MatMul of flattened maps reads the maps themselves.
  bool FlattenIntoMatMul(int i) {
    if (!IsReshape(i)) return false;
    const TensorRef from = ops_[i].inputs[0];
    const Shape *x = graph_.shape(from), *y = graph_.shape(ops_[i].output);
    if (!x || !y || x->size() != 4 || y->size() != 2 ||
        !graph_.fixed_size(from) ||
        !graph_.same_dimensions(from, ops_[i].output, 0, 1) ||
        !AllUsers(i,
                  [&](int user) { return Is(user, OperatorType::kMatMul); })) {
      return false;
    }
    const int64_t cells = (*x)[1] * (*x)[2], channels = (*x)[3];
    for (int user : Users(i)) {
      ops_[user].op.kernel = {(*x)[1], (*x)[2]};
      if (ops_[i].from != Layout::kChannelsFirst || cells == 1) continue;
      // Flattened were channels, each of all cells.
      ops_[user].weights[0].Swap({1, channels, cells, ops_[user].op.filters});
    }
    PushIntoUsers(i);
    return true;
  }

  // Zeros added and cells cut by one operator after the other, by one.
  bool ComposePads(int i) {
    const int next = IsZeroPad(i) ? OnlyUser(i) : -1;
    if (!IsZeroPad(next)) return false;
    Padding& a = ops_[i].op.padding;
    const Padding& b = ops_[next].op.padding;
    // Cells that were cut do not come back.
    const auto loses = [](int64_t first, int64_t second) {
      return first < 0 && second > 0;
    };
    if (loses(a.top, b.top) || loses(a.bottom, b.bottom) ||
        loses(a.left, b.left) || loses(a.right, b.right)) {
      return false;
    }
    a = {PaddingType::kExplicit, a.top + b.top, a.bottom + b.bottom,
         a.left + b.left, a.right + b.right};
    TakeOver(i, next);
    return true;
  }

  // A Pad that cuts at most two cells, as a depthwise convolution whose kernel
  // has a single 1, at the first cell that is kept.
  bool PadToConvolution(int i) {
    const Shape* x = graph_.shape(ops_[i].inputs[0]);
    const Padding p = ops_[i].op.padding;
    const auto cut = [](int64_t cells) { return std::max<int64_t>(-cells, 0); };
    const auto add = [](int64_t cells) { return std::max<int64_t>(cells, 0); };
    Operator& op = ops_[i].op;
    const std::array<int64_t, 2> kernel = {cut(p.top) + cut(p.bottom) + 1,
                                           cut(p.left) + cut(p.right) + 1};
    if (!x || kernel[0] > 3 || kernel[1] > 3) return false;
    const int64_t channels = x->back();
    op.type = OperatorType::kConv2D;
    op.kernel = kernel;
    op.padding = {PaddingType::kExplicit, add(p.top), add(p.bottom),
                  add(p.left), add(p.right)};
    op.groups = op.filters = channels;
    std::vector<float> filter(kernel[0] * kernel[1] * channels, 0.0f);
    const auto first =
        filter.begin() + (cut(p.top) * kernel[1] + cut(p.left)) * channels;
    std::fill(first, first + channels, 1.0f);
    ops_[i].weights = {std::move(filter)};
    return true;
  }

  // Pooling with a 1x1 window only leaves cells out: the depthwise convolution
  // or the padding before it, or the 1x1 convolutions after it, can do that.
  // (NASNet pads, cuts and pools so to shift its input, then reads it with a
  // 1x1 convolution: that becomes one SepConv.)
  bool FoldSubsampling(int i) {
    if (!Is(i, OperatorType::kPool) || ops_[i].op.kernel != kOne ||
        ops_[i].op.padding.type == PaddingType::kExplicit) {
      return false;
    }
    const int before = Producer(ops_[i].inputs[0]);
    if (IsZeroPad(before) && OnlyUser(before) == i) {
      PadToConvolution(before);
    }
    if (Is(before, OperatorType::kConv2D) && OnlyUser(before) == i &&
        ops_[before].op.strides == kOne &&
        ops_[before].op.padding.type != PaddingType::kSame) {
      ops_[before].op.strides = ops_[i].op.strides;
      TakeOver(before, i);
      return true;
    }
    const auto folds = [&](int user) {
      const Operator& op = ops_[user].op;
      return Is(user, OperatorType::kConv2D) && op.kernel == kOne &&
             op.strides == kOne && op.padding.type != PaddingType::kExplicit;
    };
    if (!AllUsers(i, folds)) return false;
    for (int user : Users(i)) ops_[user].op.strides = ops_[i].op.strides;
    PushIntoUsers(i);
    return true;
  }

  // A depthwise convolution and the 1x1 convolution that alone reads it.
  bool FuseSepConv(int i) {
    if (!Is(i, OperatorType::kConv2D) || HasEpilogue(i) || ops_[i].op.bias) {
      return false;
    }
    const Shape* x = graph_.shape(ops_[i].inputs[0]);
    const int next = OnlyUser(i);
    if (!x || ops_[i].op.groups != x->back() ||
        !Is(next, OperatorType::kConv2D)) {
      return false;
    }
    Operator& op = ops_[i].op;
    const Operator& pointwise = ops_[next].op;
    if (pointwise.kernel != kOne || pointwise.strides != kOne ||
        pointwise.groups != 1 ||
        pointwise.padding.type == PaddingType::kExplicit) {
      return false;
    }
    op.type = OperatorType::kSepConv;
    op.name = pointwise.name;
    op.multiplier = op.filters / x->back();
    op.groups = 1;
    op.filters = pointwise.filters;
    op.bias = pointwise.bias;
    op.activation = pointwise.activation;
    ops_[i].weights.insert(ops_[i].weights.end(), ops_[next].weights.begin(),
                           ops_[next].weights.end());
    TakeOver(i, next);
    return true;
  }

  // Batch norm and bias go into the weights.
  bool FoldScale(int i) {
    const bool matmul = Is(i, OperatorType::kMatMul);
    if ((!IsConvolution(i) && !matmul) || HasEpilogue(i)) {
      return false;
    }
    const int next = OnlyUser(i);
    if (!Is(next, OperatorType::kScale)) return false;
    const std::vector<float>& scale = ops_[next].weights[0].values;
    const std::vector<float>& shift = ops_[next].weights[1].values;
    std::vector<Weight>& weights = ops_[i].weights;
    const size_t last = Is(i, OperatorType::kSepConv) ? 1 : 0;
    weights[last].Scale(scale);
    if (ops_[i].op.bias) {
      std::vector<float>& bias = weights[last + 1].values;
      for (size_t c = 0; c < bias.size(); ++c) {
        bias[c] = bias[c] * scale[c] + shift[c];
      }
    } else if (std::any_of(shift.begin(), shift.end(),
                           [](float v) { return v != 0.0f; })) {
      ops_[i].op.bias = true;
      weights.push_back(shift);
    }
    ops_[i].op.activation = ops_[next].op.activation;
    TakeOver(i, next);
    return true;
  }

  // Whether `tensor` is computed on the way to operator i.
  bool IsAncestor(TensorRef tensor, int i) const {
    std::set<int> seen;
    std::vector<int> open = {i};
    while (!open.empty()) {
      const int k = open.back();
      open.pop_back();
      for (const TensorRef& t : ops_[k].inputs) {
        if (t == tensor) return true;
        const int producer = Producer(t);
        if (producer >= 0 && seen.insert(producer).second) {
          open.push_back(producer);
        }
      }
    }
    return false;
  }

  // An addition goes into a convolution if the other operand is there before
  // the convolution can start anyway, so that nothing is kept from running in
  // parallel.
  bool FoldResidual(int i) {
    if (!Is(i, OperatorType::kAdd) || ops_[i].inputs.size() != 2) return false;
    for (int k : {0, 1}) {
      const int conv = Producer(ops_[i].inputs[k]);
      const TensorRef other = ops_[i].inputs[1 - k];
      if (!IsConvolution(conv) || IsTransposed(conv) || OnlyUser(conv) != i ||
          HasEpilogue(conv) || !IsAncestor(other, conv)) {
        continue;
      }
      ops_[conv].op.residual = true;
      ops_[conv].op.activation = ops_[i].op.activation;
      SetInputs(conv, {ops_[conv].inputs[0], other});
      TakeOver(conv, i);
      return true;
    }
    return false;
  }

  bool FoldActivation(int i) {
    const bool takes = IsConvolution(i) || Is(i, OperatorType::kMatMul) ||
                       Is(i, OperatorType::kAdd) ||
                       Is(i, OperatorType::kBinary) ||
                       Is(i, OperatorType::kScale);
    if (!takes || ops_[i].op.activation != Activation::kNone) return false;
    const int next = OnlyUser(i);
    if (!Is(next, OperatorType::kActivation)) return false;
    ops_[i].op.activation = ops_[next].op.activation;
    TakeOver(i, next);
    return true;
  }

  bool IsNonNegative(int i) const {
    if (i < 0) return false;
    if (Is(i, OperatorType::kPool)) {
      return IsNonNegative(Producer(ops_[i].inputs[0]));
    }
    switch (ops_[i].op.activation.kind) {
      case Activation::kRelu:
      case Activation::kRelu6:
      case Activation::kSigmoid:
      case Activation::kHardSigmoid:
      case Activation::kSoftplus:
      case Activation::kExp:
      case Activation::kSquare:
      case Activation::kAbs:
        return true;
      case Activation::kMaximum:
      case Activation::kClip:
        return ops_[i].op.activation.alpha >= 0.0f;
      default:
        return false;
    }
  }

  // Zeros around the input become the operators' own padding.
  bool FoldPad(int i) {
    if (!IsZeroPad(i)) return false;
    const std::vector<int>& users = Users(i);
    const Shape* x = graph_.shape(ops_[i].inputs[0]);
    const bool relu = IsNonNegative(Producer(ops_[i].inputs[0]));
    const Padding pad = ops_[i].op.padding;
    const auto folds = [&](int user) {
      const Operator& op = ops_[user].op;
      if (op.residual && ops_[user].inputs[1] == ops_[i].output) return false;
      // SAME with stride 1 pads by the same number of cells for all sizes.
      const bool fixed =
          op.padding.type != PaddingType::kSame || op.strides == kOne;
      if (IsConvolution(user) && !IsTransposed(user)) return fixed;
      // A maximum of values >= 0 and padded zeros is one without the zeros, as
      // long as no window lies in the padding.
      return Is(user, OperatorType::kPool) && op.pool == PoolKind::kMax &&
             relu && op.padding.type == PaddingType::kValid &&
             std::max(pad.top, pad.bottom) < op.kernel[0] &&
             std::max(pad.left, pad.right) < op.kernel[1];
    };
    if (!x || std::min({pad.top, pad.bottom, pad.left, pad.right}) < 0 ||
        !AllUsers(i, folds)) {
      return false;
    }
    for (int user : std::set<int>(users.begin(), users.end())) {
      Operator& op = ops_[user].op;
      const std::array<int64_t, 4> own = ExplicitPadding(op, *x);
      op.padding = {PaddingType::kExplicit, pad.top + own[0],
                    pad.bottom + own[1], pad.left + own[2], pad.right + own[3]};
    }
    PushIntoUsers(i);
    return true;
  }

  // Relu-SepConv is one operator, if all that read the Relu are.
  bool FoldPreActivation(int i) {
    if (!IsActivation(i, Activation::kRelu)) return false;
    const auto folds = [&](int user) {
      const ImportedOperator& op = ops_[user];
      return Is(user, OperatorType::kSepConv) &&
             op.op.pre_activation == Activation::kNone &&
             !(op.op.residual && op.inputs[1] == ops_[i].output);
    };
    if (!AllUsers(i, folds)) return false;
    for (int user : Users(i)) ops_[user].op.pre_activation = Activation::kRelu;
    PushIntoUsers(i);
    return true;
  }

  // A concat of concats, a sum of sums.
  bool Flatten(int i) {
    const bool nests = Is(i, OperatorType::kConcat) ||
                       (Is(i, OperatorType::kAdd) &&
                        ops_[i].op.activation == Activation::kNone);
    const int next = nests ? OnlyUser(i) : -1;
    if (!Is(next, ops_[i].op.type)) return false;
    std::vector<TensorRef> inputs;
    for (const TensorRef& t : ops_[next].inputs) {
      if (t == ops_[i].output) {
        inputs.insert(inputs.end(), ops_[i].inputs.begin(),
                      ops_[i].inputs.end());
      } else {
        inputs.push_back(t);
      }
    }
    SetInputs(next, std::move(inputs));
    Cover(next, i);
    Remove(i);
    return true;
  }

  // [N,1,1,C] to [N,C] in front of other operators is a pooling of one cell.
  // Elsewhere TensorFlow's Reshape, which copies nothing, is left.
  bool FinishReshape(int i) {
    if (!IsReshape(i)) return false;
    const int before = Producer(ops_[i].inputs[0]);
    if (before < 0 || Users(i).empty() || !IsSqueeze(i) ||
        external_.count(ops_[i].output) > 0) {
      return false;
    }
    ops_[i].kind = Kind::kOperator;
    ops_[i].op.type = OperatorType::kGlobalPool;
    ops_[i].op.pool = PoolKind::kAvg;
    return true;
  }

  // One way to write each padding, so that equal blocks have equal signatures
  // and convolutions that may merge are seen: with stride 1, SAME adds
  // (extent - 1) / 2 cells before and the rest after, for every size.
  static void NormalisePadding(ImportedOperator* imported) {
    Operator& op = imported->op;
    if (op.type == OperatorType::kConv2DTranspose) {
      NormaliseCut(&op);
      return;
    }
    if (!ios::IsConvolution(op.type)) return;
    Padding& p = op.padding;
    if (p.type == PaddingType::kExplicit && !p.top && !p.bottom && !p.left &&
        !p.right) {
      p.type = PaddingType::kValid;
    }
    const int64_t h = (op.kernel[0] - 1) * op.dilations[0];
    const int64_t w = (op.kernel[1] - 1) * op.dilations[1];
    if (op.strides == kOne && p.type == PaddingType::kExplicit &&
        p.top == h / 2 && p.bottom == h - h / 2 && p.left == w / 2 &&
        p.right == w - w / 2) {
      p = Padding();
      p.type = PaddingType::kSame;
    }
    if (op.kernel == kOne && p.type == PaddingType::kSame) {
      p.type = PaddingType::kValid;
    }
  }

  // What SAME cuts off for every size, and what VALID does.
  static void NormaliseCut(Operator* op) {
    Padding& p = op->padding;
    if (p.type != PaddingType::kExplicit) return;
    std::array<int64_t, 4> same;
    for (int k : {0, 1}) {
      const int64_t cut =
          (op->kernel[k] - 1) * op->dilations[k] + 1 - op->strides[k];
      same[2 * k] = std::max<int64_t>(cut, 0) / 2;
      same[2 * k + 1] = cut - same[2 * k];
    }
    const std::array<int64_t, 4> cut = {p.top, p.bottom, p.left, p.right};
    if (cut == same || cut == std::array<int64_t, 4>{}) {
      const bool valid = cut == std::array<int64_t, 4>{};
      p = Padding();
      p.type = valid ? PaddingType::kValid : PaddingType::kSame;
    }
  }

  const GraphIndex& graph_;
  std::vector<ImportedOperator> ops_;
  std::vector<bool> alive_;
  std::map<TensorRef, int> producer_;
  std::map<TensorRef, std::vector<int>> users_;
  std::set<TensorRef> external_;
};

}  // namespace

std::vector<ImportedOperator> Fuse(const GraphIndex& graph,
                                   std::vector<ImportedOperator> operators) {
  return Fuser(graph, std::move(operators)).Run();
}

}  // namespace ios::tf

#include "scheduler/testing/scalar_chain.h"

#include <map>
#include <utility>

#include "proto/check.h"

namespace pipework {
namespace testing {
namespace {

constexpr double kRate = 0.1;

struct Stage {
  std::vector<double> weights = {0.5};  // by version
  std::map<int64_t, double> inputs;     // by unit
  std::map<int64_t, double> outputs;
  std::map<int64_t, double> gradients;  // of the output, then of the input
  double gradient = 0;                  // of the weight, summed
  size_t next = 0;
};

class Chain {
 public:
  explicit Chain(const Program& program)
      : program_(program), stages_(program.shape.stages()) {}

  std::vector<std::vector<double>> Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t s = 0; s < stages_.size(); ++s) {
        const auto& actions = program_.rows[s].actions;
        while (stages_[s].next < actions.size() &&
               Do(static_cast<int>(s), actions[stages_[s].next])) {
          ++stages_[s].next;
          moved = true;
        }
      }
    }
    std::vector<std::vector<double>> weights;
    for (size_t s = 0; s < stages_.size(); ++s) {
      PIPE_CHECK(stages_[s].next == program_.rows[s].actions.size());
      weights.push_back(stages_[s].weights);
    }
    return weights;
  }

 private:
  // False: what it receives is not there yet.
  bool Do(int s, const Action& action) {
    Stage& me = stages_[s];
    const int64_t k = action.number;
    const int64_t v = action.version.value();
    switch (action.kind) {
      case ActionKind::kReceiveForward:
        if (forward_.count({s, k}) == 0) return false;
        me.inputs[k] = forward_[{s, k}];
        break;
      case ActionKind::kReceiveBackward:
        if (backward_.count({s, k}) == 0) return false;
        me.gradients[k] = backward_[{s, k}];
        break;
      case ActionKind::kForward:
        if (s == 0) me.inputs[k] = 1;
        me.outputs[k] = me.weights.at(v) * me.inputs[k];
        break;
      case ActionKind::kSendForward:
        forward_[{s + 1, k}] = me.outputs[k];
        break;
      case ActionKind::kBackward:
        if (s + 1 == program_.shape.stages()) {
          me.gradients[k] = me.outputs[k] - 1;
        }
        me.gradient += me.gradients[k] * me.inputs[k];
        me.gradients[k] *= me.weights.at(v);
        break;
      case ActionKind::kSendBackward:
        backward_[{s - 1, k}] = me.gradients[k];
        break;
      case ActionKind::kUpdate: {
        const double units =
            program_.units_of_update(StageId{s}, action.number).size();
        PIPE_CHECK(static_cast<size_t>(v) == me.weights.size());
        me.weights.push_back(me.weights.back() - kRate * me.gradient / units);
        me.gradient = 0;
        break;
      }
      default:
        break;
    }
    return true;
  }

  const Program& program_;
  std::vector<Stage> stages_;
  std::map<std::pair<int, int64_t>, double> forward_;   // to stage, unit
  std::map<std::pair<int, int64_t>, double> backward_;  // to stage, unit
};

}  // namespace

std::vector<std::vector<double>> WalkScalarChain(const Program& program) {
  return Chain(program).Run();
}

}  // namespace testing
}  // namespace pipework

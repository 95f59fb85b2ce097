#include "kernels/optimizers/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace pipework {
namespace {

v1::LearningRateSpec Spec(const std::string& schedule) {
  v1::LearningRateSpec spec;
  spec.set_base(0.8);
  spec.set_schedule(schedule);
  return spec;
}

TEST_CASE("learning rate: constant, also by default") {
  for (const char* schedule : {"", "constant"}) {
    CHECK(LearningRateAt(Spec(schedule), 0, 100, 10) == 0.8);
    CHECK(LearningRateAt(Spec(schedule), 99, 100, 10) == 0.8);
  }
}

TEST_CASE("learning rate: step multiplies every so many epochs") {
  v1::LearningRateSpec spec = Spec("step");
  spec.set_every_epochs(2);
  spec.set_factor(0.5);
  CHECK(LearningRateAt(spec, 0, 100, 10) == Approx(0.8));
  CHECK(LearningRateAt(spec, 19, 100, 10) == Approx(0.8));
  CHECK(LearningRateAt(spec, 20, 100, 10) == Approx(0.4));
  CHECK(LearningRateAt(spec, 40, 100, 10) == Approx(0.2));
  CHECK(LearningRateAt(spec, 99, 100, 10) == Approx(0.05));
  // A third of an epoch is not a whole number of steps.
  spec.set_every_epochs(1.0 / 3.0);
  CHECK(LearningRateAt(spec, 3, 100, 10) == Approx(0.8));
  CHECK(LearningRateAt(spec, 4, 100, 10) == Approx(0.4));
  // The default factor.
  spec.set_factor(0);
  CHECK(LearningRateAt(spec, 4, 100, 10) == Approx(0.08));
}

TEST_CASE("learning rate: cosine falls from base to final") {
  v1::LearningRateSpec spec = Spec("cosine");
  CHECK(LearningRateAt(spec, 0, 100, 10) == Approx(0.8));
  CHECK(LearningRateAt(spec, 25, 100, 10) ==
        Approx(0.4 * (1 + std::sqrt(0.5))));
  CHECK(LearningRateAt(spec, 50, 100, 10) == Approx(0.4));
  CHECK(LearningRateAt(spec, 100, 100, 10) == Approx(0).margin(1e-12));
  spec.set_final(0.2);
  CHECK(LearningRateAt(spec, 50, 100, 10) == Approx(0.5));
  CHECK(LearningRateAt(spec, 100, 100, 10) == Approx(0.2));
}

TEST_CASE("learning rate: polynomial is a line by default") {
  v1::LearningRateSpec spec = Spec("polynomial");
  CHECK(LearningRateAt(spec, 25, 100, 10) == Approx(0.6));
  spec.set_power(2);
  CHECK(LearningRateAt(spec, 25, 100, 10) == Approx(0.8 * 0.75 * 0.75));
  spec.set_final(0.1);
  CHECK(LearningRateAt(spec, 50, 100, 10) == Approx(0.1 + 0.7 * 0.25));
  // A run that goes on past its end stays at the final rate.
  CHECK(LearningRateAt(spec, 1000, 100, 10) == Approx(0.1));
}

TEST_CASE("learning rate: warm-up is a line, then the schedule has the rest") {
  v1::LearningRateSpec spec = Spec("polynomial");
  spec.set_warmup_epochs(2);
  CHECK(LearningRateAt(spec, 0, 100, 10) == Approx(0.04));
  CHECK(LearningRateAt(spec, 9, 100, 10) == Approx(0.4));
  CHECK(LearningRateAt(spec, 19, 100, 10) == Approx(0.8));
  CHECK(LearningRateAt(spec, 20, 100, 10) == Approx(0.8));
  CHECK(LearningRateAt(spec, 60, 100, 10) == Approx(0.4));
  // Half an epoch of warm-up.
  spec.set_warmup_epochs(0.5);
  CHECK(LearningRateAt(spec, 4, 100, 10) == Approx(0.8));
  // A warm-up as long as the run.
  spec.set_warmup_epochs(10);
  CHECK(LearningRateAt(spec, 99, 100, 10) == Approx(0.8));
  CHECK(LearningRateAt(spec, 100, 100, 10) == Approx(0.8));
}

TEST_CASE("learning rate: what cannot work is refused by name") {
  const auto error = [](const v1::LearningRateSpec& spec) {
    return std::string(CheckLearningRate(spec).message());
  };
  for (const std::string& name : LearningRateNames()) {
    v1::LearningRateSpec spec = Spec(name);
    spec.set_every_epochs(1);
    CHECK(CheckLearningRate(spec).ok());
  }
  CHECK(error(Spec("cosin")) ==
        "learning_rate: schedule is \"cosin\", expected constant, step, "
        "cosine, polynomial");
  v1::LearningRateSpec spec = Spec("constant");
  spec.set_base(0);
  CHECK(error(spec) == "learning_rate: base is 0, expected above 0");
  spec.set_base(std::numeric_limits<double>::quiet_NaN());
  CHECK(error(spec) == "learning_rate: base is nan, expected above 0");
  spec.set_base(std::numeric_limits<double>::infinity());
  CHECK(error(spec) == "learning_rate: base is inf, expected above 0");
  CHECK(error(Spec("step")) ==
        "learning_rate: every_epochs is 0, expected above 0");
  spec = Spec("cosine");
  spec.set_final(-1);
  CHECK(error(spec) == "learning_rate: final is -1, expected 0 or more");
  spec = Spec("cosine");
  spec.set_warmup_epochs(-2);
  CHECK(error(spec) ==
        "learning_rate: warmup_epochs is -2, expected from 0 to 1000000");
}

}  // namespace
}  // namespace pipework

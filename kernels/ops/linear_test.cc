#include "kernels/ops/linear.h"

#include <catch2/catch.hpp>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

// Inputs of one case. dw and db are what the gradients start from.
struct Case {
  explicit Case(LinearShape s)
      : shape(s),
        x(RandomValues(s.rows * s.in, 1)),
        w(RandomValues(s.out * s.in, 2)),
        b(RandomValues(s.out, 3)),
        dy(RandomValues(s.rows * s.out, 4)),
        dw(RandomValues(s.out * s.in, 5)),
        db(RandomValues(s.out, 6)) {}

  Case OfAbsolutes() const {
    Case other = *this;
    for (auto* values :
         {&other.x, &other.w, &other.b, &other.dy, &other.dw, &other.db}) {
      *values = Absolute(*values);
    }
    return other;
  }

  LinearShape shape;
  std::vector<float> x, w, b, dy, dw, db;
};

std::vector<float> Forward(Backend& backend, const Case& c, int64_t shift = 0) {
  Placed x(c.x, shift), w(c.w, shift), b(c.b, shift);
  Placed y(std::vector<float>(c.shape.rows * c.shape.out), shift);
  MustBeOk(
      backend.LinearForward({c.shape, x.data(), w.data(), b.data(), y.data()}));
  return y.values();
}

std::vector<float> BackwardData(Backend& backend, const Case& c,
                                int64_t shift = 0) {
  Placed w(c.w, shift), dy(c.dy, shift);
  Placed dx(std::vector<float>(c.shape.rows * c.shape.in), shift);
  MustBeOk(
      backend.LinearBackwardData({c.shape, w.data(), dy.data(), dx.data()}));
  return dx.values();
}

// dw, then db.
std::vector<float> BackwardWeights(Backend& backend, const Case& c,
                                   int64_t shift = 0) {
  Placed x(c.x, shift), dy(c.dy, shift), dw(c.dw, shift), db(c.db, shift);
  MustBeOk(backend.LinearBackwardWeights(
      {c.shape, x.data(), dy.data(), dw.data(), db.data()}));
  return Joined({dw.values(), db.values()});
}

}  // namespace

TEST_CASE("linear matches the reference on shapes around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t rows : {0, 1, 7, 8, 9, 32, 33}) {
      for (const int64_t in : {1, 7, 8, 9, 33}) {
        for (const int64_t out : {1, 8, 10, 33}) {
          CAPTURE(backend->name(), rows, in, out);
          const Case c({rows, in, out});
          const Case terms = c.OfAbsolutes();
          CHECK(Misfit(Forward(*backend, c), Forward(*reference, c),
                       OfTerms(Forward(*reference, terms), in + 1)) == "");
          CHECK(Misfit(BackwardData(*backend, c), BackwardData(*reference, c),
                       OfTerms(BackwardData(*reference, terms), out)) == "");
          CHECK(Misfit(BackwardWeights(*backend, c),
                       BackwardWeights(*reference, c),
                       OfTerms(BackwardWeights(*reference, terms), rows + 1)) ==
                "");
        }
      }
    }
  }
}

TEST_CASE("linear matches the reference on large shapes and on two threads") {
  const auto reference = MakeReference();
  const Case c({65, 700, 130});
  const Case terms = c.OfAbsolutes();
  for (const std::string& name : LinkedBackends()) {
    for (const int threads : {1, 2}) {
      CAPTURE(name, threads);
      BackendOptions options;
      options.threads = threads;
      const auto backend = MakeBackend(name, options);
      REQUIRE(backend.ok());
      CHECK(Misfit(Forward(**backend, c), Forward(*reference, c),
                   OfTerms(Forward(*reference, terms), 701)) == "");
      CHECK(Misfit(BackwardData(**backend, c), BackwardData(*reference, c),
                   OfTerms(BackwardData(*reference, terms), 130)) == "");
      CHECK(Misfit(BackwardWeights(**backend, c),
                   BackwardWeights(*reference, c),
                   OfTerms(BackwardWeights(*reference, terms), 66)) == "");
    }
  }
}

TEST_CASE("linear without a bias, and with no inputs or outputs") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const std::vector<float> x{1, 2}, w{3, 4, 5, 6};
    std::vector<float> y(2, 99);
    MustBeOk(backend->LinearForward(
        {{1, 2, 2}, x.data(), w.data(), nullptr, y.data()}));
    CHECK(y == std::vector<float>{11, 17});

    const std::vector<float> b{7, 8};
    MustBeOk(backend->LinearForward(
        {{1, 0, 2}, x.data(), w.data(), b.data(), y.data()}));
    CHECK(y == std::vector<float>{7, 8});
    MustBeOk(backend->LinearForward(
        {{1, 0, 2}, x.data(), w.data(), nullptr, y.data()}));
    CHECK(y == std::vector<float>{0, 0});

    std::vector<float> dx(2, 99);
    MustBeOk(
        backend->LinearBackwardData({{1, 2, 0}, w.data(), nullptr, dx.data()}));
    CHECK(dx == std::vector<float>{0, 0});

    std::vector<float> dw(4, 1);
    const std::vector<float> dy{10, 100};
    MustBeOk(backend->LinearBackwardWeights(
        {{1, 2, 2}, x.data(), dy.data(), dw.data(), nullptr}));
    CHECK(dw == std::vector<float>{11, 21, 101, 201});
  }
}

TEST_CASE("linear gives the same bits on every call") {
  for (const int64_t rows : {1, 33, 80}) {
    const Case c({rows, 100, 70});
    for (const std::string& name : LinkedBackends()) {
      CAPTURE(name, rows);
      CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
              return Joined({Forward(backend, c, shift),
                             BackwardData(backend, c, shift),
                             BackwardWeights(backend, c, shift)});
            }) == "");
    }
  }
}

TEST_CASE("linear: the reference backward is the derivative of its forward") {
  const auto reference = MakeReference();
  Case c({3, 4, 5});
  c.dw.assign(c.dw.size(), 0);
  c.db.assign(c.db.size(), 0);
  const auto along_dy = [&](const Case& moved) {
    return Dot(Forward(*reference, moved), c.dy);
  };
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& x) {
              Case moved = c;
              moved.x = x;
              return along_dy(moved);
            },
            c.x, BackwardData(*reference, c), 0.5f, 1e-5) == "");
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& wb) {
              Case moved = c;
              moved.w.assign(wb.begin(), wb.begin() + c.w.size());
              moved.b.assign(wb.begin() + c.w.size(), wb.end());
              return along_dy(moved);
            },
            Joined({c.w, c.b}), BackwardWeights(*reference, c), 0.5f,
            1e-5) == "");
}

}  // namespace pipework

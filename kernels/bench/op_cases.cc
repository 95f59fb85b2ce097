#include "kernels/bench/op_cases.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/random.h"

namespace pipework {
namespace {

using Floats = std::vector<float>;

// Values in [-1, 1), shared by the copies of a case.
std::shared_ptr<Floats> Values(int64_t elements) {
  auto values = std::make_shared<Floats>(elements);
  for (int64_t i = 0; i < elements; ++i) {
    const auto words = Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, 1);
    (*values)[i] = 2 * UnitFloat(words[0]) - 1;
  }
  return values;
}

double Bytes(int64_t elements) { return 4.0 * static_cast<double>(elements); }

void AddLinear(LinearShape s, std::vector<OpCase>* cases) {
  const auto x = Values(s.rows * s.in), w = Values(s.out * s.in);
  const auto b = Values(s.out), y = Values(s.rows * s.out);
  const double bytes =
      Bytes(s.rows * s.in + s.out * s.in + s.out + s.rows * s.out);
  const double operations = 2.0 * static_cast<double>(s.rows * s.in * s.out);
  const std::string shape = absl::StrCat(s.rows, "x", s.in, ">", s.out);
  cases->push_back({absl::StrCat("linear forward ", shape), bytes, operations,
                    [=](Backend& backend) {
                      return backend.LinearForward(
                          {s, x->data(), w->data(), b->data(), y->data()});
                    }});
  cases->push_back({absl::StrCat("linear backward data ", shape), bytes,
                    operations, [=](Backend& backend) {
                      return backend.LinearBackwardData(
                          {s, w->data(), y->data(), x->data()});
                    }});
  cases->push_back({absl::StrCat("linear backward weights ", shape),
                    bytes + Bytes(s.out * s.in), operations,
                    [=](Backend& backend) {
                      return backend.LinearBackwardWeights(
                          {s, x->data(), y->data(), w->data(), b->data()});
                    }});
}

void AddConv2d(int64_t batch, int64_t in, int64_t size, int64_t out,
               int64_t kernel, std::vector<OpCase>* cases) {
  const int64_t padding = kernel / 2;
  Conv2dShape s{batch, in, size, size, out, 1, {}};
  s.window = {kernel, kernel, 1, 1, padding, padding, 1, 1};
  const int64_t pixels = batch * size * size;
  const auto x = Values(pixels * in), w = Values(out * in * kernel * kernel);
  const auto b = Values(out), y = Values(pixels * out);
  const double bytes =
      Bytes(pixels * (in + out) + out * in * kernel * kernel + out);
  const double operations =
      2.0 * static_cast<double>(pixels * in * out * kernel * kernel);
  const std::string shape = absl::StrCat(batch, "x", in, "x", size, "x", size,
                                         ">", out, " k", kernel);
  cases->push_back({absl::StrCat("conv2d fwd ", shape), bytes, operations,
                    [=](Backend& backend) {
                      return backend.Conv2dForward(
                          {s, x->data(), w->data(), b->data(), y->data()});
                    }});
  cases->push_back({absl::StrCat("conv2d bwd data ", shape), bytes, operations,
                    [=](Backend& backend) {
                      return backend.Conv2dBackwardData(
                          {s, w->data(), y->data(), x->data()});
                    }});
  cases->push_back({absl::StrCat("conv2d bwd weights ", shape),
                    bytes + Bytes(out * in * kernel * kernel), operations,
                    [=](Backend& backend) {
                      return backend.Conv2dBackwardWeights(
                          {s, x->data(), y->data(), w->data(), b->data()});
                    }});
}

void AddPools(int64_t planes, int64_t size, std::vector<OpCase>* cases) {
  const int64_t in = planes * size * size;
  const int64_t out = in / 4;
  const auto x = Values(in), y = Values(out);
  const auto argmax = std::make_shared<std::vector<int32_t>>(out);
  const Window2d window{2, 2, 2, 2, 0, 0, 1, 1};
  const MaxPoolShape max{planes, 1, size, size, window};
  const AvgPoolShape avg{planes, 1, size, size, window};
  const std::string shape = absl::StrCat(planes, "x", size, "x", size, " k2");
  cases->push_back({absl::StrCat("max_pool forward ", shape),
                    Bytes(in + 2 * out), static_cast<double>(in),
                    [=](Backend& backend) {
                      return backend.MaxPoolForward(
                          {max, x->data(), y->data(), argmax->data()});
                    }});
  cases->push_back({absl::StrCat("max_pool backward ", shape),
                    Bytes(in + 2 * out), static_cast<double>(out),
                    [=](Backend& backend) {
                      return backend.MaxPoolBackward(
                          {max, y->data(), argmax->data(), x->data()});
                    }});
  cases->push_back(
      {absl::StrCat("avg_pool forward ", shape), Bytes(in + out),
       static_cast<double>(in), [=](Backend& backend) {
         return backend.AvgPoolForward({avg, x->data(), y->data()});
       }});
  cases->push_back(
      {absl::StrCat("avg_pool backward ", shape), Bytes(in + out),
       static_cast<double>(in), [=](Backend& backend) {
         return backend.AvgPoolBackward({avg, y->data(), x->data()});
       }});
}

void AddBatchNorm(BatchNormShape s, std::vector<OpCase>* cases) {
  const int64_t n = s.batch * s.channels * s.spatial;
  const auto x = Values(n), y = Values(n), dx = Values(n);
  const auto mean = Values(s.channels), rstd = Values(s.channels);
  const auto gain = Values(s.channels), bias = Values(s.channels);
  const std::string shape =
      absl::StrCat(s.batch, "x", s.channels, "x", s.spatial);
  cases->push_back({absl::StrCat("batch_norm training ", shape), Bytes(2 * n),
                    7.0 * static_cast<double>(n), [=](Backend& backend) {
                      return backend.BatchNormTraining(
                          {s, 0.1f, 1e-5f, x->data(), gain->data(),
                           bias->data(), nullptr, nullptr, y->data(),
                           mean->data(), rstd->data()});
                    }});
  cases->push_back({absl::StrCat("batch_norm backward ", shape), Bytes(3 * n),
                    11.0 * static_cast<double>(n), [=](Backend& backend) {
                      return backend.BatchNormBackward(
                          {s, x->data(), y->data(), gain->data(), mean->data(),
                           rstd->data(), dx->data(), nullptr, nullptr});
                    }});
}

void AddElementwise(int64_t n, std::vector<OpCase>* cases) {
  const auto x = Values(n), y = Values(n), z = Values(n);
  const double elements = static_cast<double>(n);
  cases->push_back({absl::StrCat("relu forward ", n), Bytes(2 * n), elements,
                    [=](Backend& backend) {
                      return backend.ReluForward({n, x->data(), y->data()});
                    }});
  cases->push_back(
      {absl::StrCat("relu backward ", n), Bytes(3 * n), elements,
       [=](Backend& backend) {
         return backend.ReluBackward({n, x->data(), y->data(), z->data()});
       }});
  cases->push_back(
      {absl::StrCat("add ", n), Bytes(3 * n), elements, [=](Backend& backend) {
         return backend.Add({n, x->data(), y->data(), z->data()});
       }});
  DropoutArgs dropout;
  dropout.samples = 1;
  dropout.elements = n;
  dropout.p = 0.5f;
  cases->push_back({absl::StrCat("dropout ", n), Bytes(2 * n), 30 * elements,
                    [=](Backend& backend) mutable {
                      dropout.x = x->data();
                      dropout.y = z->data();
                      return backend.Dropout(dropout);
                    }});
  cases->push_back({absl::StrCat("accumulate ", n), Bytes(3 * n), elements,
                    [=](Backend& backend) {
                      return backend.Accumulate({n, x->data(), z->data()});
                    }});
}

void AddUpdates(int64_t n, std::vector<OpCase>* cases) {
  const auto w = Values(n), g = Values(n), out = Values(n);
  const auto m = std::make_shared<Floats>(n), v = std::make_shared<Floats>(n);
  cases->push_back({absl::StrCat("sgd with momentum ", n), Bytes(5 * n),
                    7.0 * static_cast<double>(n), [=](Backend& backend) {
                      SgdArgs args;
                      args.elements = n;
                      args.lr = 0.1f;
                      args.momentum = 0.9f;
                      args.w = w->data();
                      args.g = g->data();
                      args.v = v->data();
                      args.out = out->data();
                      return backend.Sgd(args);
                    }});
  cases->push_back({absl::StrCat("adam ", n), Bytes(7 * n),
                    15.0 * static_cast<double>(n), [=](Backend& backend) {
                      AdamArgs args;
                      args.elements = n;
                      args.lr = 0.1;
                      args.w = w->data();
                      args.g = g->data();
                      args.m = m->data();
                      args.v = v->data();
                      args.out = out->data();
                      return backend.Adam(args);
                    }});
}

void AddSoftmaxXent(int64_t rows, int64_t classes, std::vector<OpCase>* cases) {
  const auto x = Values(rows * classes), p = Values(rows * classes);
  const auto result = Values(2);
  const auto labels = std::make_shared<std::vector<int32_t>>(rows);
  cases->push_back({absl::StrCat("softmax_xent forward ", rows, "x", classes),
                    Bytes(2 * rows * classes),
                    20.0 * static_cast<double>(rows * classes),
                    [=](Backend& backend) {
                      return backend.SoftmaxXentForward(
                          {rows, classes, x->data(), labels->data(), p->data(),
                           result->data()});
                    }});
}

}  // namespace

std::vector<OpCase> OpCases() {
  std::vector<OpCase> cases;
  AddLinear({32, 512, 64}, &cases);
  AddLinear({64, 400, 120}, &cases);
  AddLinear({512, 512, 512}, &cases);
  AddConv2d(32, 1, 8, 16, 3, &cases);
  AddConv2d(32, 16, 8, 32, 3, &cases);
  AddConv2d(32, 32, 8, 32, 3, &cases);
  AddConv2d(64, 6, 14, 16, 5, &cases);
  AddConv2d(16, 64, 32, 64, 3, &cases);
  AddPools(32 * 32, 8, &cases);
  AddPools(64 * 6, 28, &cases);
  AddBatchNorm({32, 32, 64}, &cases);
  AddBatchNorm({32, 128, 1}, &cases);
  AddElementwise(32 * 32 * 64, &cases);
  AddElementwise(1 << 22, &cases);
  AddUpdates(32 * 32 * 9, &cases);
  AddUpdates(1 << 22, &cases);
  AddSoftmaxXent(32, 10, &cases);
  AddSoftmaxXent(64, 10000, &cases);
  return cases;
}

}  // namespace pipework

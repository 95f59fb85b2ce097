#include "daemon/profiler/hand_over.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/thread.h"
#include "daemon/transport/transport.h"
#include "kernels/tensor.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int kRounds = 200;
constexpr int kWarmRounds = 20;
constexpr absl::Duration kLimit = absl::Seconds(10);

const SeatId kHere{StageId(0), ReplicaId(0)};
const SeatId kThere{StageId(1), ReplicaId(0)};

absl::Status PassOn(Transport& transport, SeatId from, SeatId self, int round,
                    Tensor tensor) {
  Message message;
  message.id = {Channel::kForward, self, from, 0, round};
  message.tensor = std::move(tensor);
  return transport.Send(std::move(message));
}

absl::StatusOr<Tensor> Await(Transport& transport, SeatId from, SeatId self,
                             int round, const Shape& shape) {
  const Transport::Expected expected{shape, DType::kF32};
  ASSIGN_OR_RETURN(Message message,
                   transport.Receive({Channel::kForward, from, self, 0, round},
                                     &expected, MonotonicNow() + kLimit));
  return std::move(message.tensor);
}

}  // namespace

absl::StatusOr<double> HandOverSeconds() {
  DataPlaneOptions options;
  options.job = "profile";
  options.allocator = MakeHostAllocator();
  ASSIGN_OR_RETURN(std::unique_ptr<DataPlane> plane,
                   MakeDataPlane("in_process", options));
  RETURN_IF_ERROR(
      plane->Connect({{kHere, ""}, {kThere, ""}}, MonotonicNow() + kLimit));
  Transport& here = plane->endpoint(kHere);
  Transport& there = plane->endpoint(kThere);
  const Shape shape{64};
  ASSIGN_OR_RETURN(Tensor tensor,
                   Tensor::Zeros(*options.allocator, shape, DType::kF32,
                                 MemoryUse::kActivations));
  absl::Status echoed;
  Thread echo("hand-over", [&] {
    for (int i = 0; i < kRounds && echoed.ok(); ++i) {
      absl::StatusOr<Tensor> ball = Await(there, kHere, kThere, i, shape);
      echoed = ball.ok() ? PassOn(there, kHere, kThere, i, *std::move(ball))
                         : ball.status();
    }
  });
  std::vector<double> seconds;
  absl::Status status;
  for (int i = 0; i < kRounds && status.ok(); ++i) {
    const absl::Time begin = MonotonicNow();
    status = PassOn(here, kThere, kHere, i, std::move(tensor));
    if (!status.ok()) break;
    absl::StatusOr<Tensor> ball = Await(here, kThere, kHere, i, shape);
    status = ball.status();
    if (!status.ok()) break;
    tensor = *std::move(ball);
    if (i >= kWarmRounds) {
      seconds.push_back(absl::ToDoubleSeconds(MonotonicNow() - begin) / 2);
    }
  }
  if (!status.ok()) plane->Abort(status);
  echo.Join();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(echoed);
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2,
                   seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace pipework

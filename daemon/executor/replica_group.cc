#include "daemon/executor/replica_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/status_macros.h"

namespace pipework {
namespace {

// Elements [begin, end) of all tensors, one behind the other.
struct Chunk {
  int64_t begin = 0;
  int64_t end = 0;
  // A message always has an element.
  int64_t elements() const { return std::max<int64_t>(end - begin, 1); }
};

Chunk ChunkOf(int64_t elements, int replicas, int owner) {
  return {elements * owner / replicas, elements * (owner + 1) / replicas};
}

// Calls `visit(pointer, first, count)` for each piece of a tensor in `chunk`;
// `first` counts from the chunk's begin.
template <typename Visit>
void ForEachPiece(absl::Span<Tensor> tensors, Chunk chunk, Visit visit) {
  int64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t begin = std::max(chunk.begin, offset);
    const int64_t end = std::min(chunk.end, offset + tensor.elements());
    if (begin < end) {
      visit(tensor.f32() + (begin - offset), begin - chunk.begin, end - begin);
    }
    offset += tensor.elements();
  }
}

}  // namespace

ReplicaGroup::ReplicaGroup(Courier* courier, Backend* backend, int replicas)
    : courier_(courier), backend_(backend), replicas_(replicas) {}

absl::Status ReplicaGroup::Sum(const Round& round, absl::Span<Tensor> tensors) {
  const int self = courier_->options().self.replica.value();
  const StageId stage = courier_->options().self.stage;
  int64_t elements = 0;
  for (const Tensor& tensor : tensors) elements += tensor.elements();

  const auto wanted = [&](int from, int tensor) {
    Courier::Wanted w;
    w.channel = Channel::kReduce;
    w.from = {stage, ReplicaId(from)};
    w.tensor = round.first_tensor + tensor;
    w.number = round.number;
    w.unit = Courier::kNoUnit;
    w.minibatch = round.minibatch;
    return w;
  };

  // Parts to the owners of their chunks.
  for (int step = 1; step < replicas_; ++step) {
    const int owner = (self + step) % replicas_;
    const Chunk chunk = ChunkOf(elements, replicas_, owner);
    const int64_t count = round.present[self] ? chunk.elements() : 1;
    ASSIGN_OR_RETURN(Tensor part,
                     Tensor::Zeros(*backend_->allocator(), Shape{count},
                                   DType::kF32, MemoryUse::kWorkspace));
    if (round.present[self]) {
      ForEachPiece(tensors, chunk,
                   [&part](const float* from, int64_t first, int64_t n) {
                     std::memcpy(part.f32() + first, from, n * sizeof(float));
                   });
    }
    RETURN_IF_ERROR(courier_->Send(Channel::kReduce, {stage, ReplicaId(owner)},
                                   round.first_tensor, round.number,
                                   std::move(part)));
  }

  // The own chunk, from replica 0 on.
  const Chunk mine = ChunkOf(elements, replicas_, self);
  ASSIGN_OR_RETURN(Tensor sum,
                   Tensor::Zeros(*backend_->allocator(), Shape{mine.elements()},
                                 DType::kF32, MemoryUse::kWorkspace));
  bool first_part = true;
  for (int from = 0; from < replicas_; ++from) {
    Tensor part;
    if (from == self) {
      if (!round.present[self]) continue;
      if (first_part) {
        ForEachPiece(tensors, mine,
                     [&sum](const float* in, int64_t first, int64_t n) {
                       std::memcpy(sum.f32() + first, in, n * sizeof(float));
                     });
      } else {
        absl::Status status;
        ForEachPiece(
            tensors, mine, [&](const float* in, int64_t first, int64_t n) {
              status.Update(backend_->Accumulate({n, in, sum.f32() + first}));
            });
        RETURN_IF_ERROR(status);
      }
      first_part = false;
      continue;
    }
    const int64_t count = round.present[from] ? mine.elements() : 1;
    ASSIGN_OR_RETURN(
        part, courier_->Receive(wanted(from, 0), Shape{count}, DType::kF32));
    if (!round.present[from]) continue;
    if (first_part) {
      std::memcpy(sum.f32(), part.f32(), part.bytes());
      first_part = false;
    } else {
      RETURN_IF_ERROR(
          backend_->Accumulate({part.elements(), part.f32(), sum.f32()}));
    }
  }

  // Sums to everyone, and everyone's sums.
  for (int step = 1; step < replicas_; ++step) {
    const int to = (self + step) % replicas_;
    RETURN_IF_ERROR(courier_->Send(Channel::kReduce, {stage, ReplicaId(to)},
                                   round.first_tensor + 1, round.number, sum));
  }
  for (int owner = 0; owner < replicas_; ++owner) {
    const Chunk chunk = ChunkOf(elements, replicas_, owner);
    Tensor part = sum;
    if (owner != self) {
      ASSIGN_OR_RETURN(
          part, courier_->Receive(wanted(owner, 1), Shape{chunk.elements()},
                                  DType::kF32));
    }
    ForEachPiece(tensors, chunk, [&part](float* to, int64_t first, int64_t n) {
      std::memcpy(to, part.f32() + first, n * sizeof(float));
    });
  }
  return absl::OkStatus();
}

absl::Status ReplicaGroup::SumGradients(int64_t update, int64_t minibatch,
                                        absl::Span<const bool> present,
                                        absl::Span<Tensor> gradients) {
  Round round;
  round.first_tensor = 0;
  round.number = update;
  round.minibatch = minibatch;
  round.present.assign(present.begin(), present.end());
  return Sum(round, gradients);
}

absl::Status ReplicaGroup::AverageBuffers(int64_t drain,
                                          absl::Span<Tensor> buffers) {
  Round round;
  round.first_tensor = 2;
  round.number = drain;
  round.minibatch = -1;
  round.present.assign(replicas_, true);
  RETURN_IF_ERROR(Sum(round, buffers));
  const float share = 1.0f / static_cast<float>(replicas_);
  for (Tensor& buffer : buffers) {
    RETURN_IF_ERROR(backend_->Scale({buffer.elements(), share, buffer.f32()}));
  }
  return absl::OkStatus();
}

}  // namespace pipework

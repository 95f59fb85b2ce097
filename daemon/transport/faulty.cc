#include "daemon/transport/faulty.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/thread.h"
#include "proto/check.h"

namespace pipework {
namespace {

constexpr absl::Duration kShuffleLimit = absl::Milliseconds(2);

class FaultyPlane final : public DataPlane {
 public:
  FaultyPlane(std::unique_ptr<DataPlane> inner, const Faults& faults)
      : inner_(std::move(inner)),
        faults_(faults),
        random_(faults.seed),
        thread_("faulty", [this] { Loop(); }) {}

  ~FaultyPlane() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.Join();
  }

  std::string address() const override { return inner_->address(); }
  absl::Status Connect(const std::vector<Seat>& seats,
                       absl::Time deadline) override {
    for (const Seat& seat : seats) {
      if (seat.address == address()) {
        ends_.emplace(seat.seat, std::make_unique<End>(this, seat.seat));
      }
    }
    return inner_->Connect(seats, deadline);
  }
  Transport& endpoint(SeatId seat) override {
    const auto it = ends_.find(seat);
    PIPE_CHECK(it != ends_.end());
    return *it->second;
  }
  void OnPeerLost(std::function<void(const absl::Status&)> callback) override {
    inner_->OnPeerLost(std::move(callback));
  }
  void Abort(const absl::Status& cause) override { inner_->Abort(cause); }
  int64_t refused_messages() const override {
    return inner_->refused_messages();
  }

 private:
  class End final : public Transport {
   public:
    End(FaultyPlane* plane, SeatId seat) : plane_(plane), seat_(seat) {}
    absl::Status Send(Message message) override {
      plane_->Take(seat_, std::move(message));
      return absl::OkStatus();
    }
    absl::StatusOr<Message> Receive(const MessageId& id,
                                    const Expected* expected,
                                    absl::Time deadline) override {
      return inner().Receive(id, expected, deadline);
    }
    bool Ready(const MessageId& id) override { return inner().Ready(id); }
    void Abort(const absl::Status& cause) override { inner().Abort(cause); }
    int64_t bytes_sent() const override { return inner().bytes_sent(); }

   private:
    Transport& inner() const { return plane_->inner_->endpoint(seat_); }
    FaultyPlane* const plane_;
    const SeatId seat_;
  };

  struct Kept {
    SeatId from;
    Message message;
  };

  bool Happens(double probability) {
    return std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }

  void Corrupt(MessageId* id) {
    switch (std::uniform_int_distribution<>(0, 2)(random_)) {
      case 0:
        id->number += 1000000;
        break;
      case 1:
        id->tensor += 1000;
        break;
      default:
        id->to.stage = StageId(id->to.stage.value() + 1000);
    }
  }

  void Take(SeatId from, Message message) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Happens(faults_.drop)) return;
    if (Happens(faults_.corrupt_id)) Corrupt(&message.id);
    const int copies = Happens(faults_.repeat) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      const double part = std::uniform_real_distribution<>(0, 1)(random_);
      absl::Time when = MonotonicNow() + part * faults_.delay;
      if (faults_.shuffle > 0) {
        together_.push_back({from, message});
        if (together_.size() == 1) together_since_ = MonotonicNow();
        continue;
      }
      kept_.emplace(when, Kept{from, message});
    }
    if (static_cast<int>(together_.size()) >= faults_.shuffle) Deal();
    changed_.notify_all();
  }

  // Lets those go that were collected, in a random order. REQUIRES: mutex_.
  void Deal() {
    std::shuffle(together_.begin(), together_.end(), random_);
    const absl::Time now = MonotonicNow();
    for (Kept& kept : together_) kept_.emplace(now, std::move(kept));
    together_.clear();
  }

  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stopping_ || !kept_.empty() || !together_.empty()) {
      const absl::Time now = MonotonicNow();
      if (!together_.empty() &&
          (stopping_ || now >= together_since_ + kShuffleLimit)) {
        Deal();
      }
      if (!kept_.empty() && (stopping_ || kept_.begin()->first <= now)) {
        Kept kept = std::move(kept_.begin()->second);
        kept_.erase(kept_.begin());
        lock.unlock();
        const absl::Status ignored =
            inner_->endpoint(kept.from).Send(std::move(kept.message));
        lock.lock();
        continue;
      }
      absl::Time until = absl::InfiniteFuture();
      if (!kept_.empty()) until = kept_.begin()->first;
      if (!together_.empty()) {
        until = std::min(until, together_since_ + kShuffleLimit);
      }
      // Once is enough: the loop looks again.
      bool woken = false;
      WaitUntil(changed_, lock, until,
                [&] { return std::exchange(woken, true); });
    }
  }

  const std::unique_ptr<DataPlane> inner_;
  const Faults faults_;
  std::map<SeatId, std::unique_ptr<End>> ends_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::multimap<absl::Time, Kept> kept_;  // by the time of their release
  std::vector<Kept> together_;            // to be shuffled
  absl::Time together_since_;
  bool stopping_ = false;
  Thread thread_;
};

}  // namespace

std::unique_ptr<DataPlane> MakeFaultyPlane(std::unique_ptr<DataPlane> inner,
                                           const Faults& faults) {
  return std::make_unique<FaultyPlane>(std::move(inner), faults);
}

}  // namespace pipework

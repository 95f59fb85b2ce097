#include "daemon/coordinator/board.h"

#include <algorithm>
#include <utility>

#include "daemon/coordinator/job_machine.h"
#include "daemon/coordinator/job_store.h"
#include "proto/check.h"

namespace pipework {

void JobBoard::Put(JobSnapshot job, const std::vector<v1::StepMetrics>& steps,
                   const std::vector<v1::JobEvent>& events) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [it, fresh] = entries_.try_emplace(job->id());
  if (fresh) order_.push_back(job->id());
  Entry& entry = it->second;
  entry.job = std::move(job);
  entry.steps.insert(entry.steps.end(), steps.begin(), steps.end());
  while (entry.steps.size() > kKeptSteps) {
    entry.steps.pop_front();
    ++entry.first_step;
  }
  entry.events.insert(entry.events.end(), events.begin(), events.end());
  ++change_;
  changed_.notify_all();
}

void JobBoard::PutNodes(std::vector<v1::Node> nodes) {
  std::lock_guard<std::mutex> lock(mutex_);
  nodes_ = std::move(nodes);
}

void JobBoard::SetTrouble(const std::string& trouble) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (trouble_ == trouble) return;
  trouble_ = trouble;
  ++change_;
  changed_.notify_all();
}

void JobBoard::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  ++change_;
  changed_.notify_all();
}

absl::StatusOr<JobSnapshot> JobBoard::Find(const std::string& ref,
                                           bool exact) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto direct = entries_.find(ref);
  if (direct != entries_.end()) return direct->second.job;
  std::vector<const v1::Job*> jobs;
  for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
    jobs.push_back(entries_.at(*id).job.get());
  }
  auto found = FindReference(jobs, ref, exact);
  if (!found.ok()) return found.status();
  return entries_.at(jobs[*found]->id()).job;
}

std::vector<JobSnapshot> JobBoard::List() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<JobSnapshot> jobs;
  for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
    jobs.push_back(entries_.at(*id).job);
  }
  return jobs;
}

std::vector<v1::Node> JobBoard::Nodes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return nodes_;
}

std::string JobBoard::Trouble() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return trouble_;
}

bool JobBoard::closed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

bool JobBoard::Next(const std::string& id, int64_t limit, Position* position,
                    Update* update) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(id);
  PIPE_CHECK(it != entries_.end());
  const Entry& entry = it->second;
  update->job = entry.job;
  update->steps.clear();
  update->events.clear();
  update->missed_steps =
      position->steps < entry.first_step && position->revision >= 0;
  const int64_t from = std::max(position->steps, entry.first_step);
  const int64_t all =
      entry.first_step + static_cast<int64_t>(entry.steps.size());
  const int64_t to = std::min(all, from + limit);
  for (int64_t i = from; i < to; ++i) {
    update->steps.push_back(
        entry.steps[static_cast<size_t>(i - entry.first_step)]);
  }
  for (size_t i = static_cast<size_t>(position->events);
       i < entry.events.size(); ++i) {
    update->events.push_back(entry.events[i]);
  }
  const bool news = entry.job->revision() > position->revision ||
                    !update->steps.empty() || !update->events.empty();
  position->revision = entry.job->revision();
  position->steps = to;
  position->events = static_cast<int64_t>(entry.events.size());
  return news;
}

int64_t JobBoard::Change() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return change_;
}

int64_t JobBoard::WaitForChange(int64_t seen, absl::Time deadline) const {
  std::unique_lock<std::mutex> lock(mutex_);
  clock_.WaitUntil(changed_, lock, deadline,
                   [&] { return change_ > seen || closed_; });
  return change_;
}

}  // namespace pipework

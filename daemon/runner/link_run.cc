#include "daemon/runner/link_run.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/profiler/link_times.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LinkRun>> LinkRun::Listen(
    const v1::RunnerLinks& request, const std::string& transport) {
  std::unique_ptr<LinkRun> run(new LinkRun());
  run->request_ = request;
  run->allocator_ = MakeHostAllocator();
  DataPlaneOptions options;
  options.job = request.job();
  options.nonce = request.nonce();
  if (!request.data_host().empty()) options.listen_host = request.data_host();
  options.advertise_host = request.advertise_host();
  options.port_first = request.data_port_first();
  options.port_last = request.data_port_last();
  options.allocator = run->allocator_;
  ASSIGN_OR_RETURN(run->plane_, MakeDataPlane(transport, options));
  return run;
}

absl::StatusOr<v1::RunnerReport::Links> LinkRun::Measure(
    const v1::Placement& placement, absl::Time deadline) {
  // Nobody else is dialled.
  const int self = request_.index();
  std::set<int> partners = {self};
  for (const v1::RunnerLinks::Pair& pair : request_.pairs()) {
    if (pair.a() == self) partners.insert(pair.b());
    if (pair.b() == self) partners.insert(pair.a());
  }
  std::vector<DataPlane::Seat> seats;
  for (const v1::Seat& seat : placement.seats()) {
    if (partners.erase(seat.stage()) == 0) continue;
    seats.push_back({LinkSeat(seat.stage()), seat.data_address()});
  }
  if (!partners.empty()) {
    return Mismatch("links",
                    absl::StrCat("the address of node ", *partners.begin()),
                    "missing", "host:port");
  }
  RETURN_IF_ERROR(plane_->Connect(seats, deadline));
  ASSIGN_OR_RETURN(const std::vector<v1::LinkMeasurement> links,
                   MeasureLinks(request_, *plane_, *allocator_, deadline));
  v1::RunnerReport::Links report;
  for (const v1::LinkMeasurement& link : links) *report.add_links() = link;
  return report;
}

}  // namespace pipework

#include "daemon/oracle/trace.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

std::string SeatName(const Trace& trace) {
  return absl::StrCat("stage ", trace.stage, " replica ", trace.replica);
}

// By unit: updates that stage 0 had made since the last drain as it entered.
using Entries = std::map<int64_t, int64_t>;

Entries EntriesOf(const std::vector<Trace>& traces) {
  Entries entries;
  for (const Trace& trace : traces) {
    if (trace.stage != 0) continue;
    int64_t updates = 0;
    for (const TraceRecord& record : trace.records) {
      if (record.operation == 'F') entries[record.number] = updates;
      if (record.operation == 'U') ++updates;
      if (record.operation == 'D') updates = 0;
    }
  }
  return entries;
}

// Where a seat stands.
struct Standing {
  int64_t newest;
  int64_t drained;          // version at the last drain
  int64_t first_minibatch;  // since then
};

// The version that a forward must read.
int64_t WantedVersion(const Promise& promise, const Trace& trace,
                      const TraceRecord& record, const Entries& entries,
                      const Standing& now) {
  if (promise.weights == "two_version") {
    const int64_t update =
        (record.minibatch - now.first_minibatch) / promise.accumulate;
    return now.drained + std::max<int64_t>(0, update - 1);
  }
  const auto entry = entries.find(record.number);
  if (promise.weights != "vertical_sync" || promise.rounds.empty() ||
      entry == entries.end()) {
    return now.newest;
  }
  return now.drained +
         entry->second * promise.rounds[0] / promise.rounds[trace.stage];
}

}  // namespace

absl::StatusOr<std::vector<TraceRecord>> ParseTrace(const std::string& file,
                                                    absl::string_view text) {
  std::vector<TraceRecord> records;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    TraceRecord record;
    int64_t microbatch = 0;
    if (fields.size() != 6 || fields[0].size() != 1 ||
        !absl::SimpleAtoi(fields[1], &record.number) ||
        !absl::SimpleAtoi(fields[2], &record.minibatch) ||
        !absl::SimpleAtoi(fields[3], &microbatch) ||
        !absl::SimpleAtoi(fields[4], &record.version_read) ||
        !absl::SimpleAtoi(fields[5], &record.version_written)) {
      return Mismatch(absl::StrCat(file, ":", line_number), "a record",
                      absl::StrCat("\"", line.substr(0, 60), "\""),
                      "a letter and five whole numbers");
    }
    record.operation = fields[0][0];
    if (absl::string_view("FBUD").find(record.operation) !=
        absl::string_view::npos) {
      records.push_back(record);
    }
  }
  return records;
}

absl::StatusOr<std::vector<Trace>> ReadTraces(
    const std::vector<std::string>& folders, const v1::Plan& plan) {
  std::vector<Trace> traces;
  for (int s = 0; s < plan.stages_size(); ++s) {
    for (int q = 0; q < plan.stages(s).replicas(); ++q) {
      Trace trace;
      trace.stage = s;
      trace.replica = q;
      const std::string name = absl::StrCat("oplog-s", s, "-r", q, ".txt");
      bool found = false;
      for (const std::string& folder : folders) {
        const std::string path = absl::StrCat(folder, "/", name);
        std::ifstream file(path);
        if (!file) continue;
        std::ostringstream text;
        text << file.rdbuf();
        ASSIGN_OR_RETURN(trace.records, ParseTrace(path, text.str()));
        found = true;
        break;
      }
      if (!found) {
        return absl::NotFoundError(absl::StrCat(
            "oracle: operation log ", name, " is in none of ", folders.size(),
            " folders, expected one; run the job with its operation log on"));
      }
      traces.push_back(std::move(trace));
    }
  }
  return traces;
}

Promise PromiseOf(const v1::JobSpec& spec, const v1::Plan& plan) {
  Promise promise;
  promise.weights = plan.weights();
  promise.accumulate = std::max<int64_t>(1, spec.batch().accumulate());
  for (const v1::PlanStage& stage : plan.stages()) {
    int64_t round = 0;
    int64_t common = 0;
    for (const int share : stage.shares()) {
      round += share;
      common = std::gcd(common, int64_t{share});
    }
    promise.rounds.push_back(common > 0 ? round / common : stage.replicas());
  }
  return promise;
}

std::string FirstBrokenPromise(const std::vector<Trace>& traces,
                               const Promise& promise) {
  const Entries entries = EntriesOf(traces);
  for (const Trace& trace : traces) {
    const std::string seat = SeatName(trace);
    std::map<int64_t, int64_t> in_flight;  // unit -> version its forward read
    int64_t newest = 0;
    int64_t drained = 0;  // version at the last drain
    int64_t first_minibatch = -1;
    for (const TraceRecord& record : trace.records) {
      switch (record.operation) {
        case 'F': {
          if (first_minibatch < 0) first_minibatch = record.minibatch;
          const int64_t wanted =
              WantedVersion(promise, trace, record, entries,
                            {newest, drained, first_minibatch});
          if (record.version_read != wanted) {
            return MismatchText(
                seat,
                absl::StrCat("version that the forward of unit ", record.number,
                             " read"),
                absl::StrCat(record.version_read),
                absl::StrCat(wanted, wanted == newest ? ", the newest" : ""));
          }
          if (!in_flight.emplace(record.number, record.version_read).second) {
            return MismatchText(seat, absl::StrCat("unit ", record.number),
                                "forwarded twice", "once");
          }
          break;
        }
        case 'B': {
          const auto forward = in_flight.find(record.number);
          if (forward == in_flight.end()) {
            return MismatchText(seat, absl::StrCat("unit ", record.number),
                                "backwarded", "a forward before it");
          }
          if (promise.weights == "none") {
            if (record.version_read != newest) {
              return MismatchText(
                  seat,
                  absl::StrCat("version that the backward of unit ",
                               record.number, " read"),
                  absl::StrCat(record.version_read),
                  absl::StrCat(newest, ", the newest"));
            }
          } else if (record.version_read != forward->second) {
            return MismatchText(
                seat,
                absl::StrCat("version that the backward of unit ",
                             record.number, " read"),
                absl::StrCat(record.version_read),
                absl::StrCat(forward->second, ", that of its forward"));
          }
          in_flight.erase(forward);
          break;
        }
        case 'U':
          if (record.version_read != newest ||
              record.version_written != newest + 1) {
            return MismatchText(
                seat, absl::StrCat("update ", record.number),
                absl::StrCat("of version ", record.version_read, " to ",
                             record.version_written),
                absl::StrCat("of version ", newest, " to ", newest + 1));
          }
          newest = record.version_written;
          break;
        case 'D':
          if (!in_flight.empty()) {
            return MismatchText(seat, "units in flight at a drain",
                                absl::StrCat(in_flight.size()), "0");
          }
          drained = newest;
          first_minibatch = -1;
          break;
        default:
          break;
      }
    }
  }
  return "";
}

std::vector<int64_t> DrainsOf(const std::vector<Trace>& traces) {
  std::vector<int64_t> drains;
  for (const Trace& trace : traces) {
    int64_t step = 0;
    size_t drain = 0;
    for (const TraceRecord& record : trace.records) {
      if (record.operation == 'B') {
        step = std::max(step, record.minibatch + 1);
      } else if (record.operation == 'D') {
        // A replica sees its own units only: the step is the furthest.
        if (drain == drains.size()) drains.push_back(0);
        drains[drain] = std::max(drains[drain], step);
        ++drain;
      }
    }
  }
  return drains;
}

}  // namespace pipework

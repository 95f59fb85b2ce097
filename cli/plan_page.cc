// PlanPage and PlanDiffPage of report.h.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli/output.h"
#include "cli/report.h"
#include "scheduler/compile.h"
#include "scheduler/planning/words.h"

namespace pipework {
namespace {

// Nodes that are named one by one.
constexpr size_t kNamedNodes = 2;
// Rows of a table of links.
constexpr int kShownLinks = 8;

std::string Bytes(int64_t bytes) {
  return bytes == 0 ? "-" : FormatBytes(static_cast<double>(bytes));
}

std::string Ms(double ms) {
  if (!(ms > 0)) return "-";
  return absl::StrFormat(ms < 0.1 ? "%.4f" : ms < 1000 ? "%.2f" : "%.0f", ms);
}

// Fewer digits for larger numbers.
std::string Rate(double per_second) {
  return absl::StrFormat(per_second < 0.1  ? "%.2g"
                         : per_second < 10 ? "%.2f"
                                           : "%.0f",
                         per_second);
}

std::string BytesPerSecond(double bytes) {
  if (bytes < 1e3) return absl::StrFormat("%.0f B/s", bytes);
  if (bytes < 1e6) return absl::StrFormat("%.1f kB/s", bytes / 1e3);
  if (bytes < 1e9) return absl::StrFormat("%.1f MB/s", bytes / 1e6);
  return absl::StrFormat("%.2f GB/s", bytes / 1e9);
}

// "cpu:0-2,5" for devices of one node.
std::string Numbers(std::vector<std::string> names) {
  std::string out;
  std::string prefix;
  int last = -2;
  bool open = false;
  const auto close = [&] {
    if (open) absl::StrAppend(&out, "-", last);
    open = false;
  };
  for (const std::string& name : names) {
    const size_t colon = name.find(':');
    int number = 0;
    if (colon == std::string::npos ||
        !absl::SimpleAtoi(name.substr(colon + 1), &number)) {
      close();
      absl::StrAppend(&out, out.empty() ? "" : ",", name);
      prefix.clear();
      last = -2;
      continue;
    }
    if (name.substr(0, colon) == prefix && number == last + 1) {
      last = number;
      open = true;
      continue;
    }
    close();
    absl::StrAppend(&out, out.empty() ? "" : ",");
    if (name.substr(0, colon) != prefix) {
      prefix = name.substr(0, colon);
      absl::StrAppend(&out, prefix, ":");
    }
    absl::StrAppend(&out, number);
    last = number;
  }
  close();
  return out;
}

// "n1/cpu:0-3", "15 on n1..n4".
std::string DevicesText(const v1::PlanStage& stage) {
  if (stage.devices_size() != stage.replicas()) {
    return absl::StrCat(stage.replicas(), " x any");
  }
  std::vector<std::string> nodes;
  std::map<std::string, std::vector<std::string>> devices;
  for (const std::string& device : stage.devices()) {
    const size_t slash = device.find('/');
    const std::string node = device.substr(0, slash);
    if (devices.count(node) == 0) nodes.push_back(node);
    devices[node].push_back(
        slash == std::string::npos ? "" : device.substr(slash + 1));
  }
  if (nodes.size() > kNamedNodes) {
    return absl::StrCat(stage.devices_size(), " on ", nodes.front(), "..",
                        nodes.back());
  }
  std::vector<std::string> parts;
  for (const std::string& node : nodes) {
    parts.push_back(absl::StrCat(node, "/", Numbers(devices[node])));
  }
  return absl::StrJoin(parts, " ");
}

// Sentences no wider than `width`, later lines moved to the right.
std::string Wrapped(absl::string_view text, int width, size_t indent) {
  std::string out;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > static_cast<size_t>(width)) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  }
  return out + "\n";
}

// Units that the first stage runs in a round: its replicas, or their shares.
int FirstRound(const v1::Plan& plan) {
  if (plan.stages().empty()) return 1;
  return RoundUnits(plan.stages(0).replicas(), plan.stages(0).shares());
}

std::string Head(const v1::Plan& plan, absl::string_view job, int width) {
  int workers = 0;
  for (const v1::PlanStage& stage : plan.stages()) workers += stage.replicas();
  std::string out =
      absl::StrCat(plan.schedule(), " with ", plan.weights(), " weights, ",
                   CountText(plan.stages_size(), "stage"), " on ",
                   CountText(workers, "device"), ", ");
  if (plan.microbatches() > 1) {
    absl::StrAppend(&out, CountText(plan.microbatches(), "microbatch", "es"));
    const int round = FirstRound(plan);
    if (round > 1) absl::StrAppend(&out, " x ", round, " of the first stage");
  } else {
    absl::StrAppend(&out, CountText(plan.in_flight(), "minibatch", "es"),
                    " in flight");
  }
  if (plan.minibatch() > 1) {
    absl::StrAppend(&out, ", minibatch ", plan.minibatch());
  }
  return absl::StrCat("Plan  job ", job, "\n", Wrapped(out, width, 2));
}

std::string StageTables(const v1::Plan& plan, int width) {
  double slowest = 0;
  bool shares = false;
  bool measured = false;
  for (const v1::PlanStage& stage : plan.stages()) {
    slowest = std::max(slowest, stage.seconds());
    shares |= stage.shares_size() > 0;
    measured |= stage.utilisation() > 0;
  }
  std::vector<std::string> headings = {
      "STAGE", "LAYERS", "DEVICES", ">FWD ms", ">BWD ms", ">STEP ms", ""};
  if (measured) headings.push_back(">BUSY");
  if (shares) headings.push_back("SHARES");
  headings.push_back(">TO NEXT");
  Table times(headings);
  Table memory({"STAGE", ">WEIGHTS", ">OPTIM", ">STASH", ">ACTIV.", ">TOTAL",
                ">LIMIT", ">VERSIONS", ">STALE"});
  for (int i = 0; i < plan.stages_size(); ++i) {
    const v1::PlanStage& stage = plan.stages(i);
    std::vector<std::string> row = {
        absl::StrCat(i),
        LayerRange(stage.layers()),
        DevicesText(stage),
        Ms(1000 * stage.forward_seconds()),
        Ms(1000 * stage.backward_seconds()),
        Ms(1000 * stage.seconds()),
        plan.stages_size() > 1 && stage.seconds() == slowest ? "<slow" : ""};
    if (measured) row.push_back(FormatPercent(stage.utilisation()));
    if (shares) row.push_back(absl::StrJoin(stage.shares(), ","));
    row.push_back(i + 1 < plan.stages_size() ? Bytes(stage.output_bytes())
                                             : std::string("-"));
    times.Row(row);
    memory.Row({absl::StrCat(i), Bytes(stage.weight_bytes()),
                Bytes(stage.optimizer_bytes()), Bytes(stage.stash_bytes()),
                Bytes(stage.activation_bytes()), Bytes(stage.total_bytes()),
                Bytes(stage.limit_bytes()),
                absl::StrCat(stage.versions() > 0 ? stage.versions()
                                                  : stage.warmup() + 1),
                absl::StrFormat("%.3g", stage.staleness())});
  }
  // Other models than ours charge for what a step may hide.
  std::string meaning;
  if (!plan.cost_model().empty() && plan.cost_model() != "pipework") {
    meaning =
        Wrapped(absl::StrCat(
                    "STEP ms is what cost model ", plan.cost_model(),
                    " charges a stage for a minibatch; a predicted step, which "
                    "is simulated, may be shorter."),
                width, 2);
  }
  return absl::StrCat("\n", times.ToString(width), meaning, "\n",
                      memory.ToString(width), "\n");
}

std::string Summary(const v1::Plan& plan, int width) {
  std::string line =
      absl::StrCat("Predicted step ", Ms(plan.predicted_step_ms()), " ms, ",
                   Rate(plan.samples_per_second()),
                   plan.minibatch() == 1 ? " minibatches/s" : " samples/s",
                   ", bubble ", FormatPercent(plan.bubble()));
  if (plan.links_size() > 0) {
    const v1::LinkLoad& link = plan.links(0);
    absl::StrAppend(&line, ", busiest link ",
                    link.from() == link.to()
                        ? absl::StrCat("within ", link.from())
                        : absl::StrCat(link.from(), "-", link.to()),
                    " ", BytesPerSecond(link.bytes_per_second()), " of ",
                    BytesPerSecond(link.limit_bytes_per_second()));
  }
  std::string out = Wrapped(line, width, 2);
  absl::StrAppend(
      &out,
      Wrapped(
          absl::StrCat(
              "Slowest stage or cut by cost model ",
              plan.cost_model().empty() ? "pipework" : plan.cost_model(), ": ",
              Ms(1000 * plan.bottleneck_seconds()), " ms a minibatch",
              plan.bottleneck().empty() ? "" : "; it is ", plan.bottleneck()),
          width, 2));
  if (plan.estimated()) {
    out += "Estimated from operations and bytes: no layer was measured.\n";
  } else if (plan.profile_measured_at() > 0) {
    const int64_t age =
        absl::ToUnixSeconds(absl::Now()) - plan.profile_measured_at();
    absl::StrAppend(
        &out, "Profile: measured ",
        FormatSeconds(static_cast<double>(std::max<int64_t>(0, age))),
        " ago.\n");
  }
  if (plan.profile_noisy()) {
    out += "Noisy profile: its device was busy, and times may be off.\n";
  }
  if (plan.layer_order_size() > 0) {
    out +=
        "Branches are cut across: layers run in an order of their own "
        "(-o json).\n";
  }
  return out;
}

std::string RivalsTable(const v1::Plan& plan, int width) {
  if (plan.rivals_size() == 0) return "";
  Table table({"RIVAL", plan.minibatch() == 1 ? ">MINIB./S" : ">SAMPLES/S",
               ">VS DATA PAR.", ">MEMORY", ">LARGEST", ">STALE", "IN WORDS"});
  for (const v1::Rival& rival : plan.rivals()) {
    if (!rival.feasible()) {
      table.Row({rival.name(), "does not fit", "-", "-", "-", "-",
                 SafeText(rival.reason())});
      continue;
    }
    table.Row(
        {rival.name(), Rate(rival.samples_per_second()),
         rival.speedup_over_data_parallel() > 0
             ? absl::StrFormat("%.2fx", rival.speedup_over_data_parallel())
             : "-",
         Bytes(rival.total_bytes()), Bytes(rival.largest_bytes()),
         absl::StrFormat("%.3g", rival.staleness()), rival.detail()});
  }
  return absl::StrCat("\n", table.ToString(width));
}

std::string DepthTable(const v1::Plan& plan, int width) {
  if (plan.depths_size() == 0) return "";
  Table table({">IN FLIGHT", ">STEP ms", ">STALE", ">LARGEST DEVICE", ""});
  for (const v1::Depth& depth : plan.depths()) {
    table.Row({absl::StrCat(depth.in_flight()), Ms(depth.predicted_step_ms()),
               absl::StrFormat("%.3g", depth.staleness()),
               Bytes(depth.largest_bytes()),
               !depth.feasible()                       ? "does not fit"
               : depth.in_flight() == plan.in_flight() ? "<chosen"
                                                       : ""});
  }
  return absl::StrCat("\n", table.ToString(width));
}

std::string PinCosts(const v1::Plan& plan, int width) {
  std::string out;
  for (const v1::PinCost& pin : plan.pin_costs()) {
    // Of what a step takes without it, longer or shorter.
    const bool gains = pin.cost() < -0.0005;
    absl::StrAppend(
        &out,
        Wrapped(absl::StrFormat(
                    "Pin %s %s %.1f%%: without it a step takes "
                    "%s ms",
                    SafeText(pin.pin()), gains ? "gains" : "costs",
                    100 * (gains ? -pin.cost() : std::max(0.0, pin.cost())),
                    Ms(pin.predicted_step_ms())),
                width, 2));
  }
  return out.empty() ? out : "\n" + out;
}

std::string Explanation(const v1::Plan& plan, int width) {
  std::string out;
  for (const std::string& sentence : plan.explanation()) {
    absl::StrAppend(&out, Wrapped("- " + SafeText(sentence), width, 2));
  }
  if (!out.empty()) out = "\nWhy it is as fast as it is:\n" + out;
  if (plan.improvements_size() > 0) {
    Table table({"WHAT WOULD MOVE IT", ">STEP ms", ">FASTER"});
    for (const v1::Improvement& change : plan.improvements()) {
      const double gain =
          change.predicted_step_ms() > 0
              ? plan.predicted_step_ms() / change.predicted_step_ms() - 1
              : 0;
      table.Row({SafeText(change.change()), Ms(change.predicted_step_ms()),
                 FormatPercent(gain)});
    }
    absl::StrAppend(&out, "\n", table.ToString(width));
  }
  if (!out.empty() && plan.links_size() > 0) {
    Table table({"LINK", ">CARRIES", ">OF", ">LOAD"});
    const int shown = std::min(kShownLinks, plan.links_size());
    for (int i = 0; i < shown; ++i) {
      const v1::LinkLoad& link = plan.links(i);
      const bool limited = link.limit_bytes_per_second() > 0;
      table.Row({link.from() == link.to()
                     ? absl::StrCat("within ", link.from())
                     : absl::StrCat(link.from(), "-", link.to()),
                 BytesPerSecond(link.bytes_per_second()),
                 limited ? BytesPerSecond(link.limit_bytes_per_second()) : "-",
                 limited ? FormatPercent(link.bytes_per_second() /
                                         link.limit_bytes_per_second())
                         : "-"});
    }
    absl::StrAppend(&out, "\n", table.ToString(width));
    if (plan.links_size() > shown) {
      absl::StrAppend(&out, "(", plan.links_size() - shown,
                      " links left out; -o json has them all)\n");
    }
  }
  return out;
}

}  // namespace

std::string PlanPage(const v1::Plan& plan, absl::string_view job, int width) {
  if (!plan.feasible()) {
    return absl::StrCat("Plan  job ", job,
                        "\nNot feasible: ", SafeText(plan.reason()), "\n");
  }
  return absl::StrCat(Head(plan, job, width), StageTables(plan, width),
                      Summary(plan, width), RivalsTable(plan, width),
                      DepthTable(plan, width), PinCosts(plan, width),
                      Explanation(plan, width));
}

v1::PlanDifference DifferenceOf(const v1::Job& job) {
  v1::PlanDifference out;
  out.set_job(job.id());
  out.set_name(job.name());
  out.set_predicted_step_ms(job.plan().predicted_step_ms() > 0
                                ? job.plan().predicted_step_ms()
                                : job.predicted_step_ms());
  out.set_measured_step_ms(job.measured_step_ms());
  const auto ratio = [](double measured, double predicted) {
    return measured > 0 && predicted > 0 ? measured / predicted : 0;
  };
  out.set_ratio(ratio(out.measured_step_ms(), out.predicted_step_ms()));
  const bool splits = TakesMicrobatches(job.plan().schedule());
  const int units = std::max(1, job.plan().microbatches()) *
                    (splits ? FirstRound(job.plan()) : 1);
  const v1::StageDifference* largest = nullptr;
  const auto distance = [](const v1::StageDifference& row) {
    return row.ratio() > 0 ? std::fabs(std::log(row.ratio())) : 0;
  };
  out.mutable_stages()->Reserve(job.stages_size());  // `largest` points into it
  for (const v1::StageMetrics& stage : job.stages()) {
    if (stage.index() < 0 || stage.index() >= job.plan().stages_size()) {
      continue;
    }
    const v1::PlanStage& planned = job.plan().stages(stage.index());
    const double per_minibatch =
        static_cast<double>(units) / std::max(1, planned.replicas());
    v1::StageDifference* row = out.add_stages();
    row->set_index(stage.index());
    row->set_replica(stage.replica());
    row->set_device(stage.device());
    row->set_predicted_forward_ms(1000 * planned.forward_seconds());
    row->set_predicted_backward_ms(1000 * planned.backward_seconds());
    row->set_predicted_step_ms(per_minibatch * (row->predicted_forward_ms() +
                                                row->predicted_backward_ms()));
    row->set_measured_forward_ms(stage.forward_ms());
    row->set_measured_backward_ms(stage.backward_ms());
    row->set_measured_step_ms(per_minibatch *
                              (stage.forward_ms() + stage.backward_ms()));
    row->set_ratio(ratio(row->measured_step_ms(), row->predicted_step_ms()));
    if (largest == nullptr || distance(*row) > distance(*largest)) {
      largest = row;
    }
  }
  if (largest == nullptr || largest->ratio() <= 0) {
    out.set_summary("Nothing was measured yet.");
    return out;
  }
  const bool backward = std::fabs(largest->measured_backward_ms() -
                                  largest->predicted_backward_ms()) >
                        std::fabs(largest->measured_forward_ms() -
                                  largest->predicted_forward_ms());
  out.set_summary(absl::StrFormat(
      "Largest difference: stage %d on %s computes %s ms a minibatch where the "
      "plan said %s (%+.0f%%), mostly in its %s passes.",
      largest->index(), largest->device(), Ms(largest->measured_step_ms()),
      Ms(largest->predicted_step_ms()), 100 * (largest->ratio() - 1),
      backward ? "backward" : "forward"));
  return out;
}

std::string DifferencePage(const v1::PlanDifference& difference, int width) {
  std::string out = absl::StrCat(difference.name(), "  ", difference.job(),
                                 "  plan against measurement\n");
  const auto ratio = [](double value) {
    return value > 0 ? absl::StrFormat("%.2fx", value) : std::string("-");
  };
  const bool replicated =
      std::any_of(difference.stages().begin(), difference.stages().end(),
                  [](const auto& row) { return row.replica() > 0; });
  Table table({"STAGE", "DEVICE", ">PLAN F", ">PLAN B", ">PLAN STEP", ">FWD ms",
               ">BWD ms", ">STEP ms", ">RATIO"});
  for (const v1::StageDifference& row : difference.stages()) {
    table.Row({replicated ? absl::StrCat(row.index(), ".", row.replica())
                          : absl::StrCat(row.index()),
               row.device(), Ms(row.predicted_forward_ms()),
               Ms(row.predicted_backward_ms()), Ms(row.predicted_step_ms()),
               Ms(row.measured_forward_ms()), Ms(row.measured_backward_ms()),
               Ms(row.measured_step_ms()), ratio(row.ratio())});
  }
  if (difference.stages_size() > 0) {
    absl::StrAppend(&out, "\n", table.ToString(width));
  }
  absl::StrAppend(&out, "\nStep: plan ", Ms(difference.predicted_step_ms()),
                  " ms, measured ", Ms(difference.measured_step_ms()), " ms (",
                  ratio(difference.ratio()), ")\n",
                  Wrapped(difference.summary(), width, 2));
  return out;
}

}  // namespace pipework

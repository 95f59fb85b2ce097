// The table of commands, in the order of `pipectl --help`.
#include "cli/command.h"
#include "cli/commands/checkpoint.h"
#include "cli/commands/completion.h"
#include "cli/commands/jobs.h"
#include "cli/commands/local.h"
#include "cli/commands/logs.h"
#include "cli/commands/plan.h"
#include "cli/commands/schedule.h"
#include "cli/commands/server.h"
#include "cli/commands/spec.h"
#include "cli/commands/submit.h"
#include "cli/commands/verify.h"
#include "cli/commands/wait.h"

namespace pipework {
namespace {

const Flag kSet = {"--set", "PATH=VALUE",
                   "override a field of the spec, such as run.epochs=5", true};
const Flag kMetrics = {"--metrics", "FILE",
                       "write loss, rate and throughput of every step "
                       "(.jsonl or .csv)"};
const Flag kNodes = {"--nodes", "N", "node daemons to start (2)"};
const Flag kDevices = {"--devices-per-node", "N",
                       "CPU devices of each node (2)"};
const Positional kSpec = {"SPEC",
                          "job spec, YAML or JSON; - is standard input"};
const Positional kJob = {
    "JOB", "job id, a unique prefix of one, or name/NAME for the newest"};
const Positional kCheckpoint = {"CHECKPOINT",
                                "a folder, or JOB for its newest, or JOB/STEP"};

}  // namespace

const std::vector<Flag>& GlobalFlags() {
  static const std::vector<Flag> flags = {
      {"-s,--server", "HOST:PORT", "coordinator to talk to"},
      {"--state-dir", "DIR",
       "state folder of a local cluster "
       "(./pipework-state)"},
      {"-o,--output", "FORMAT", "table, json or name"},
      {"--timeout", "TIME", "limit for the command, such as 30s or 5m"},
      {"--color", "WHEN", "auto, always or never"},
      {"-q,--quiet", "", "only results and errors"},
      {"--token-file", "FILE", "file with the access token"},
  };
  return flags;
}

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = {
      {"local run",
       "train a job on this machine: starts a cluster, runs, shows, stops",
       {kNodes,
        kDevices,
        kSet,
        kMetrics,
        {"--name", "NAME", "name of the job"},
        {"--from", "CHECKPOINT", "start from a checkpoint"}},
       {kSpec},
       &LocalRun},
      {"local up",
       "start a cluster on this machine that stays",
       {kNodes,
        kDevices,
        {"--listen", "HOST:PORT",
         "coordinator's address "
         "(127.0.0.1:7070)"}},
       {},
       &LocalUp},
      {"local down", "stop the cluster of local up", {}, {}, &LocalDown},
      {"local status", "what runs on this machine", {}, {}, &LocalStatus},
      {"submit",
       "hand a job to the coordinator",
       {kSet,
        kMetrics,
        {"--name", "NAME", "name of the job"},
        {"--from", "CHECKPOINT", "start from a checkpoint"},
        {"--plan", "FILE", "exactly this plan, from plan -o json"},
        {"--wait", "", "wait for the end; the exit code is the verdict"},
        {"-f,--follow", "", "the same, with progress; Ctrl-C detaches"},
        {"--cancel-on-exit", "", "Ctrl-C cancels the job"},
        {"--wait-for-capacity", "", "queue even if it does not fit now"},
        {"--dry-run", "", "check and plan only"},
        {"--request-id", "ID", "the same id again gives the same job"}},
       {kSpec},
       &Submit},
      {"validate",
       "check a spec, without a server",
       {kSet},
       {kSpec},
       &Validate},
      {"explain",
       "documentation of a field of the spec",
       {{"--recursive", "", "with everything below it"}},
       {{"FIELD", "such as pipeline.stages; left out: the whole spec", 0}},
       &Explain},
      {"plan",
       "stages, devices, memory and speed of a job before it runs; with "
       "--profile, --topology or --devices without a server",
       {kSet,
        {"--profile", "FILE",
         "measured profile, text proto or graph.txt; again for further kinds "
         "of devices; without SPEC its graph is planned",
         true},
        {"--profile-batch", "N", "samples in a minibatch of a graph.txt (1)"},
        {"--minibatch", "N", "samples, without SPEC (those of the profile)"},
        {"--topology", "FILE", "levels or nodes of a cluster as text proto"},
        {"--devices", "LIST",
         "devices of a node, nodes and so on, such as 4,2; or NxM: N nodes of "
         "M devices"},
        {"--bandwidth", "LIST",
         "bytes per second of each level, such as 8e9,1.25e9; one: between "
         "nodes of NxM or a file"},
        {"--latency", "LIST", "seconds per message of each level"},
        {"--cost-model", "NAME", "pipework, paper or public_code"},
        {"--stages", "N", "exactly N stages"},
        {"--max-stages", "N", "at most N stages"},
        {"--straight", "", "one replica of each stage"},
        {"--use-fewer-devices", "",
         "cost models paper and public_code may leave devices idle"},
        {"--memory-limit", "SIZE", "of each device at most, such as 8GiB"},
        {"--in-flight", "N", "noam, auto or a number"},
        {"--alternatives", "N", "the N next best plans too"},
        {"--explain", "", "why it is as fast as it is, and what would move it"},
        {"--detailed-exitcode", "", "20: would queue, 21: never fits"}},
       {{"SPEC", "job spec; or diff JOB: a job's plan beside what was measured",
         0, 2}},
       &PlanCommand},
      {"schedule",
       "the grid of a schedule, without a server",
       {{"--schedule", "NAME", "name of a schedule (1f1b)"},
        {"--weights", "NAME", "weight policy (the schedule's own)"},
        {"--stages", "N", "stages (4)"},
        {"--replicas", "LIST", "replicas of each stage, such as 2,1,1"},
        {"--chunks", "N", "chunks of each stage, with interleaved (2)"},
        {"--minibatches", "N", "minibatches (8; 1 with microbatches)"},
        {"--microbatches", "N",
         "microbatches of each minibatch (two for each stage)"},
        {"--in-flight", "N", "minibatches in flight at stage 0"},
        {"--transfers", "", "show sends and receives in the rows"},
        {"--out", "FILE", "write the picture as SVG"}},
       {},
       &ScheduleCommand},
      {"verify",
       "run a spec in the pipeline and serially, and compare every bit",
       {kSet,
        {"--schedule", "NAME", "another schedule than the spec's"},
        {"--weights", "NAME", "another weight policy"},
        {"--stages", "N", "another number of stages"},
        {"--replicas", "LIST", "replicas of each stage, such as 2,1,1"},
        {"--microbatches", "N", "microbatches of each minibatch"},
        {"--steps", "N", "minibatches to run (24)"},
        {"--break", "WHAT", "version, label, scale or order (test builds)"}},
       {kSpec},
       &Verify},
      {"jobs",
       "jobs, newest first",
       {{"--state", "STATE", "only jobs in this state", true},
        {"--limit", "N", "at most N (100)"}},
       {},
       &Jobs},
      {"show",
       "everything about a job, before and after its end",
       {{"--events", "", "what happened to it"},
        {"--spec", "", "its spec"},
        {"--plan", "", "its plan"}},
       {kJob},
       &Show},
      {"status",
       "the stages of a running job",
       {{"-w,--watch", "", "again and again, until the job is over"},
        {"--interval", "TIME", "between two pictures (1s)"},
        {"--stage", "N", "only this stage", true}},
       {kJob},
       &Status},
      {"logs",
       "log lines of a job",
       {{"-f,--follow", "", "and those to come, until the job is over"},
        {"--stage", "N", "only of this stage", true},
        {"--replica", "N", "only of this replica", true},
        {"--node", "NAME", "only of this node", true},
        {"--attempt", "N", "only of this attempt"},
        {"--level", "LEVEL", "at least debug, info, warn or error"},
        {"--grep", "RE", "only with this regular expression in the text"},
        {"--tail", "N", "only the last N"},
        {"--timestamps", "", "with the time of each line"},
        {"--exit-status", "", "with -f: the exit code is the verdict"}},
       {kJob},
       &Logs},
      {"wait",
       "wait for the end of jobs; the exit code is the verdict",
       {{"--for", "WHAT", "end (default), state=NAME, step=N or checkpoint"}},
       {{"JOB", "job ids or name/NAME", 1, -1}},
       &Wait},
      {"cancel",
       "stop jobs, with a checkpoint",
       {{"--now", "", "without a checkpoint"},
        {"--grace", "TIME", "for the checkpoint (10s)"},
        {"--reason", "TEXT", "why"}},
       {{"JOB", "job ids or name/NAME", 1, -1}},
       &Cancel},
      {"checkpoint ls", "checkpoints of a job", {}, {kJob}, &CheckpointLs},
      {"checkpoint verify",
       "read every byte of a checkpoint and compare hashes",
       {},
       {kCheckpoint},
       &CheckpointVerify},
      {"checkpoint export",
       "write one safetensors file in PyTorch's names",
       {{"--out", "FILE", "the file (NAME.safetensors)"},
        {"--force", "", "overwrite it"}},
       {kCheckpoint},
       &CheckpointExport},
      {"node ls", "nodes and their devices", {}, {}, &NodeLs},
      {"health",
       "0: serving, 3: not serving, 7: unreachable",
       {{"--service", "NAME", "one service"}},
       {},
       &Health},
      {"completion",
       "completion script for a shell",
       {},
       {{"SHELL", "bash, zsh or fish"}},
       &Completion},
      {"version",
       "version of pipectl, and of the server if one answers",
       {},
       {},
       &Version},
  };
  return commands;
}

}  // namespace pipework

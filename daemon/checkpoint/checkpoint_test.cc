#include "daemon/checkpoint/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/paths.h"
#include "daemon/checkpoint/checkpoint_test_util.h"
#include "daemon/checkpoint/manifest.h"
#include "daemon/checkpoint/safetensors.h"

namespace pipework {
namespace {

using testing::Empty;
using testing::Holds;
using testing::Save;
using testing::TempFolder;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// Replaces what is in a file, at its length or another.
void Change(const std::string& path, void (*change)(std::string*)) {
  auto contents = ReadFile(path);
  REQUIRE(contents.ok());
  change(&*contents);
  REQUIRE(WriteFileAtomically(path, *contents).ok());
}

TEST_CASE("checkpoint: what is saved is loaded, bit for bit") {
  TempFolder temp;
  const auto folder = Save(temp.path(), 120);
  REQUIRE(folder.ok());
  CHECK(*folder == temp.path() + "/step-00000120");
  CHECK(Holds(*folder, 120));
  const auto manifest = ReadManifest(*folder);
  REQUIRE(manifest.ok());
  CHECK(manifest->format_version() == 1);
  CHECK(manifest->job() == "j-test");
  CHECK(manifest->shards_size() == 2);
  CHECK(manifest->shards(1).stage() == 1);
  CHECK(manifest->shards(1).tensors_size() == 3);
  CHECK_FALSE(FileExists(temp.path() + "/.partial-step-00000120-a1"));
}

TEST_CASE(
    "checkpoint: tensors are loaded out of the shards that have them, "
    "for another cut of the network") {
  TempFolder temp;
  const auto folder = Save(temp.path(), 1);
  REQUIRE(folder.ok());
  const auto manifest = VerifyCheckpoint(*folder);
  REQUIRE(manifest.ok());
  std::vector<NamedTensor> mixed = {Empty("fc.bias", {2}),
                                    Empty("bn1.running_var", {4})};
  REQUIRE(LoadTensors(*folder, *manifest, absl::MakeSpan(mixed)).ok());
  CHECK(mixed[0].tensor.f32()[1] == 1321);
  CHECK(mixed[1].tensor.f32()[0] == 1140);

  // The shard that is not needed is not read.
  REQUIRE(::unlink((*folder + "/stage-1.safetensors").c_str()) == 0);
  std::vector<NamedTensor> first = {Empty("conv1.bias", {4})};
  CHECK(LoadTensors(*folder, *manifest, absl::MakeSpan(first)).ok());
}

TEST_CASE(
    "checkpoint: what is missing is listed, and a wrong shape or type is "
    "named with both") {
  TempFolder temp;
  const auto folder = Save(temp.path(), 1);
  REQUIRE(folder.ok());
  const auto manifest = ReadManifest(*folder);
  REQUIRE(manifest.ok());
  std::vector<NamedTensor> missing = {Empty("fc.bias", {2}),
                                      Empty("fc2.weight", {2}),
                                      Empty("optimizer.m.fc.bias", {2})};
  absl::Status status =
      LoadTensors(*folder, *manifest, absl::MakeSpan(missing));
  CHECK(absl::IsNotFound(status));
  CHECK(absl::StrContains(Message(status),
                          "2 of 3 tensors: fc2.weight, optimizer.m.fc.bias"));
  std::vector<NamedTensor> shape = {Empty("fc.bias", {3})};
  status = LoadTensors(*folder, *manifest, absl::MakeSpan(shape));
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(Message(status), "is F32[2], expected F32[3]"));
  std::vector<NamedTensor> type = {Empty("fc.bias", {2}, DType::kI32)};
  CHECK(absl::IsInvalidArgument(
      LoadTensors(*folder, *manifest, absl::MakeSpan(type))));
}

TEST_CASE("checkpoint: each kind of damage is found, and names the file") {
  struct Case {
    const char* what;
    const char* file;
    void (*change)(std::string*);
    const char* text;
    bool listed_complete;  // found only by the hash
  };
  const Case cases[] = {
      {"a flipped bit of a weight", "stage-0.safetensors",
       [](std::string* s) { s->back() ^= 1; }, "its sha256 is", true},
      {"a flipped bit of a header", "stage-0.safetensors",
       [](std::string* s) { (*s)[20] ^= 1; }, "stage-0.safetensors", true},
      {"a shard that is cut off", "stage-1.safetensors",
       [](std::string* s) { s->resize(s->size() / 2); }, "cut off", false},
      {"an empty shard", "stage-1.safetensors",
       [](std::string* s) { s->clear(); }, "has 0 bytes", false},
      {"a longer shard", "stage-1.safetensors",
       [](std::string* s) { *s += "more"; }, "followed by others", false},
      {"a Git LFS pointer", "stage-1.safetensors",
       [](std::string* s) {
         *s = "version https://git-lfs.github.com/spec/v1\noid sha256:1\n";
       },
       "Git LFS pointer", false},
      {"a header of absurd length", "stage-1.safetensors",
       [](std::string* s) { (*s)[6] = '\x7f'; }, "length of the header", true},
      {"a manifest that is cut off", "manifest.textproto",
       [](std::string* s) { s->resize(s->size() - 80); }, "cut off", false},
      {"a changed step", "manifest.textproto",
       [](std::string* s) { s->replace(s->find("step: 7"), 7, "step: 8"); },
       "was changed after it was written", false},
      {"an empty manifest", "manifest.textproto",
       [](std::string* s) { s->clear(); }, "cut off", false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    TempFolder temp;
    const auto folder = Save(temp.path(), 7);
    REQUIRE(folder.ok());
    Change(JoinPath(*folder, c.file), c.change);
    const auto verified = VerifyCheckpoint(*folder);
    REQUIRE(absl::IsDataLoss(verified.status()));
    CAPTURE(Message(verified.status()));
    CHECK(absl::StrContains(Message(verified.status()), c.file));
    CHECK(absl::StrContains(Message(verified.status()), c.text));
    const auto entries = ListCheckpoints(temp.path());
    REQUIRE(entries.size() == 1);
    CHECK(entries[0].complete == c.listed_complete);
    CHECK(entries[0].problem.empty() == c.listed_complete);
  }
}

TEST_CASE("checkpoint: a missing shard and a missing manifest are found") {
  TempFolder temp;
  auto folder = Save(temp.path(), 1);
  REQUIRE(folder.ok());
  REQUIRE(::unlink((*folder + "/stage-1.safetensors").c_str()) == 0);
  CHECK(absl::IsDataLoss(VerifyCheckpoint(*folder).status()));
  CHECK(absl::StrContains(Message(VerifyCheckpoint(*folder).status()),
                          "stage-1.safetensors: No such file"));
  CHECK(ListCheckpoints(temp.path())[0].problem ==
        "stage-1.safetensors is missing");
  REQUIRE(::unlink((*folder + "/manifest.textproto").c_str()) == 0);
  CHECK(absl::IsDataLoss(VerifyCheckpoint(*folder).status()));
  CHECK(absl::IsNotFound(ReadManifest(*folder).status()));
  CHECK(absl::StrContains(ListCheckpoints(temp.path())[0].problem,
                          "not written to its end"));
}

TEST_CASE(
    "checkpoint: a manifest cannot point out of its folder, nor name a "
    "file or a tensor twice") {
  TempFolder temp;
  const auto folder = Save(temp.path(), 1);
  REQUIRE(folder.ok());
  const auto good = ReadManifest(*folder);
  REQUIRE(good.ok());
  const auto refused = [&](const v1::Manifest& manifest) {
    return !ParseManifest("m", FormatManifest(manifest)).ok();
  };
  CHECK_FALSE(refused(*good));
  for (const char* name :
       {"../stage-0.safetensors", "/etc/passwd", "", ".", "..", ".hidden",
        "a/b", "manifest.textproto", "a b"}) {
    CAPTURE(name);
    v1::Manifest manifest = *good;
    manifest.mutable_shards(0)->set_file(name);
    CHECK(refused(manifest));
  }
  v1::Manifest manifest = *good;
  manifest.mutable_shards(0)->set_file(manifest.shards(1).file());
  CHECK(refused(manifest));
  manifest = *good;
  manifest.mutable_shards(0)->add_tensors("fc.weight");
  CHECK(refused(manifest));
  manifest = *good;
  manifest.mutable_shards(0)->set_sha256("00");
  CHECK(refused(manifest));
  manifest = *good;
  manifest.clear_shards();
  CHECK(refused(manifest));
  manifest = *good;
  manifest.set_step(-1);
  CHECK(refused(manifest));
  manifest = *good;
  manifest.set_format_version(2);
  const auto newer = ParseManifest("m", FormatManifest(manifest));
  CHECK(absl::IsFailedPrecondition(newer.status()));
  CHECK(absl::StrContains(Message(newer.status()),
                          "format_version is 2, expected 1"));
}

TEST_CASE(
    "checkpoint: publishing checks the shards, and what is wrong stays "
    "unpublished") {
  TempFolder temp;
  const auto partial = BeginCheckpoint(temp.path(), 5, 1);
  REQUIRE(partial.ok());
  v1::Manifest manifest;
  manifest.set_step(5);
  auto shard = WriteShard(*partial, "stage-0.safetensors", 0,
                          testing::StageTensors(0, 5));
  REQUIRE(shard.ok());
  *manifest.add_shards() = *shard;
  shard->set_file("stage-1.safetensors");
  shard->clear_tensors();
  *manifest.add_shards() = *shard;
  CHECK(absl::IsDataLoss(PublishCheckpoint(*partial, manifest).status()));
  manifest.mutable_shards()->RemoveLast();
  manifest.mutable_shards(0)->set_sha256(std::string(64, '0'));
  CHECK(absl::IsDataLoss(PublishCheckpoint(*partial, manifest).status()));
  CHECK_FALSE(FileExists(temp.path() + "/step-00000005"));
  const auto entries = ListCheckpoints(temp.path());
  REQUIRE(entries.size() == 1);
  CHECK_FALSE(entries[0].complete);
}

TEST_CASE(
    "checkpoint: publishing a step again leaves the one that is there, "
    "unless that one is broken") {
  TempFolder temp;
  const auto first = Save(temp.path(), 3, /*attempt=*/1);
  REQUIRE(first.ok());
  const auto second = Save(temp.path(), 3, /*attempt=*/2);
  REQUIRE(second.ok());
  CHECK(*first == *second);
  CHECK(ReadManifest(*first)->attempt() == 1);
  CHECK(ListCheckpoints(temp.path()).size() == 1);
  REQUIRE(::unlink((*first + "/stage-0.safetensors").c_str()) == 0);
  REQUIRE(Save(temp.path(), 3, /*attempt=*/2).ok());
  CHECK(ReadManifest(*first)->attempt() == 2);
  CHECK(Holds(*first, 3));
}

TEST_CASE("checkpoint: beginning again removes what was begun") {
  TempFolder temp;
  const auto partial = BeginCheckpoint(temp.path(), 5, 1);
  REQUIRE(partial.ok());
  REQUIRE(WriteFileAtomically(*partial + "/stage-9.safetensors", "x").ok());
  REQUIRE(*BeginCheckpoint(temp.path(), 5, 1) == *partial);
  CHECK_FALSE(FileExists(*partial + "/stage-9.safetensors"));
}

TEST_CASE("checkpoint: the listing is newest first and shows the incomplete") {
  TempFolder temp;
  CHECK(ListCheckpoints(temp.path() + "/none").empty());
  for (const int64_t step : {10, 9, 200}) REQUIRE(Save(temp.path(), step).ok());
  REQUIRE(BeginCheckpoint(temp.path(), 300, 2).ok());
  REQUIRE(MakeFolders(temp.path() + "/something-else").ok());
  const auto entries = ListCheckpoints(temp.path());
  REQUIRE(entries.size() == 4);
  CHECK_FALSE(entries[0].complete);
  CHECK(entries[0].folder == temp.path() + "/.partial-step-00000300-a2");
  CHECK(entries[1].manifest.step() == 200);
  CHECK(entries[2].manifest.step() == 10);
  CHECK(entries[3].manifest.step() == 9);
}

TEST_CASE(
    "checkpoint: retention keeps the newest complete ones, and what is "
    "newer still being written") {
  TempFolder temp;
  for (const int64_t step : {1, 2, 3, 4}) REQUIRE(Save(temp.path(), step).ok());
  // The newest is broken: it does not count as kept.
  REQUIRE(
      ::unlink((temp.path() + "/step-00000004/manifest.textproto").c_str()) ==
      0);
  const auto stale = BeginCheckpoint(temp.path(), 2, 7);
  const auto fresh = BeginCheckpoint(temp.path(), 5, 1);
  REQUIRE(fresh.ok());
  REQUIRE(MakeFolders(temp.path() + "/.removed-step-00000000").ok());
  REQUIRE(Retain(temp.path(), 2).ok());
  CHECK(Holds(temp.path() + "/step-00000003", 3));
  CHECK(Holds(temp.path() + "/step-00000002", 2));
  CHECK_FALSE(FileExists(temp.path() + "/step-00000001"));
  CHECK_FALSE(FileExists(*stale));
  CHECK(FileExists(*fresh));
  CHECK_FALSE(FileExists(temp.path() + "/.removed-step-00000000"));
  REQUIRE(Retain(temp.path() + "/", 1).ok());
  CHECK_FALSE(FileExists(temp.path() + "/step-00000002"));
  REQUIRE(Retain(temp.path(), 0).ok());
  CHECK(Holds(temp.path() + "/step-00000003", 3));
}

TEST_CASE("checkpoint: a pipe in the place of a file is not waited for") {
  TempFolder temp;
  const auto folder = Save(temp.path(), 2);
  REQUIRE(folder.ok());
  for (const char* name : {"stage-0.safetensors", "manifest.textproto"}) {
    INFO(name);
    const std::string path = absl::StrCat(*folder, "/", name);
    REQUIRE(::unlink(path.c_str()) == 0);
    REQUIRE(::mkfifo(path.c_str(), 0644) == 0);
    const absl::Status status = VerifyCheckpoint(*folder).status();
    CHECK_FALSE(status.ok());
    CHECK(absl::StrContains(status.message(), name));
  }
}

TEST_CASE(
    "checkpoint: an export has weights and buffers under their names, "
    "and PyTorch's counter") {
  TempFolder temp;
  const auto folder = Save(temp.path(), 2);
  REQUIRE(folder.ok());
  const std::string file = temp.path() + "/out.safetensors";
  REQUIRE(ExportCheckpoint(*folder, file, false).ok());
  const auto exported = SafetensorsFile::Open(file);
  REQUIRE(exported.ok());
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : exported->header().entries) {
    names.push_back(absl::StrCat(entry.name, " ", entry.TypeText()));
  }
  // By name, whatever shards they come from; eight-byte numbers first.
  CHECK(names == std::vector<std::string>{
                     "bn1.num_batches_tracked I64[]", "bn1.bias F32[4]",
                     "bn1.running_mean F32[4]", "bn1.running_var F32[4]",
                     "bn1.weight F32[4]", "conv1.bias F32[4]",
                     "conv1.weight F32[4,1,3,3]", "fc.bias F32[2]",
                     "fc.weight F32[2,5]"});
  CHECK(exported->header().metadata.at("format") == "pt");
  float bias[2];
  REQUIRE(exported->Read(*exported->Find("fc.bias"), 0, 8, bias).ok());
  CHECK(bias[1] == 2321);
  int64_t count = -1;
  REQUIRE(
      exported->Read(*exported->Find("bn1.num_batches_tracked"), 0, 8, &count)
          .ok());
  CHECK(count == 0);

  CHECK(absl::IsAlreadyExists(ExportCheckpoint(*folder, file, false)));
  CHECK(absl::IsAlreadyExists(ExportCheckpoint(*folder, temp.path(), true)));
  CHECK(ExportCheckpoint(*folder, file, true).ok());
  // Never in the place of a folder or a device.
  CHECK(absl::IsAlreadyExists(ExportCheckpoint(*folder, *folder, true)));
  CHECK(absl::IsAlreadyExists(ExportCheckpoint(*folder, "/dev/null", true)));
  Change(*folder + "/stage-1.safetensors",
         [](std::string* s) { s->back() ^= 1; });
  CHECK(absl::IsDataLoss(ExportCheckpoint(*folder, file, true)));
  CHECK(SafetensorsFile::Open(file).ok());  // the old one is still there
}

TEST_CASE("checkpoint: a shard that cannot be written leaves nothing") {
  TempFolder temp;
  const auto tensors = testing::StageTensors(0, 1);
  CHECK(absl::IsNotFound(
      WriteShard(temp.path() + "/none", "a.safetensors", 0, tensors).status()));
  CHECK(absl::IsInvalidArgument(
      WriteShard(temp.path(), "../a.safetensors", 0, tensors).status()));
  std::vector<NamedTensor> twice = {tensors[0], tensors[0]};
  CHECK(absl::IsInvalidArgument(
      WriteShard(temp.path(), "a.safetensors", 0, twice).status()));
  std::vector<NamedTensor> empty = {{"a", Tensor()}};
  CHECK(absl::IsInvalidArgument(
      WriteShard(temp.path(), "a.safetensors", 0, empty).status()));
  CHECK_FALSE(FileExists(temp.path() + "/a.safetensors"));
}

}  // namespace
}  // namespace pipework

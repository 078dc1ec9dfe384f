// Tests that writing to a remote filesystem that fails midway leaves either the
// complete file or no file. tests/integration/test_hostile_cache.py tests local
// files.
#include "cc/tensorflow/cache/cache_file.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/ram_file_system.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using ::tensorflow::Env;
using ::tensorflow::RamFileSystem;
using ::tensorflow::TransactionToken;
using ::tensorflow::WritableFile;

enum class Step { kNone, kCreate, kOpen, kAppend, kRename, kDelete };

// The step at which the filesystem fails. It is a global variable, because the
// filesystem is registered once for all tests.
Step& FailingStep() {
  static Step step = Step::kNone;
  return step;
}

absl::Status Fails(Step step) {
  return FailingStep() == step ? absl::UnavailableError("the network is down")
                               : absl::OkStatus();
}

// Writes half of the data and then fails.
class TornFile : public WritableFile {
 public:
  explicit TornFile(std::unique_ptr<WritableFile> file)
      : file_(std::move(file)) {}
  absl::Status Append(absl::string_view data) override {
    TF_RETURN_IF_ERROR(file_->Append(data.substr(0, data.size() / 2)));
    return absl::UnavailableError("the network is down");
  }
  absl::Status Close() override { return file_->Close(); }
  absl::Status Flush() override { return file_->Flush(); }
  absl::Status Sync() override { return file_->Sync(); }

 private:
  std::unique_ptr<WritableFile> file_;
};

class FailingFileSystem : public RamFileSystem {
 public:
  absl::Status RecursivelyCreateDir(const std::string& path,
                                    TransactionToken* token) override {
    TF_RETURN_IF_ERROR(Fails(Step::kCreate));
    return RamFileSystem::RecursivelyCreateDir(path, token);
  }
  absl::Status NewWritableFile(const std::string& path, TransactionToken* token,
                               std::unique_ptr<WritableFile>* file) override {
    TF_RETURN_IF_ERROR(Fails(Step::kOpen));
    TF_RETURN_IF_ERROR(RamFileSystem::NewWritableFile(path, token, file));
    // A removal can only fail if an incomplete file exists, so in that case the
    // write fails first.
    if (!Fails(Step::kAppend).ok() || !Fails(Step::kDelete).ok()) {
      *file = std::make_unique<TornFile>(std::move(*file));
    }
    return absl::OkStatus();
  }
  absl::Status RenameFile(const std::string& from, const std::string& to,
                          TransactionToken* token) override {
    TF_RETURN_IF_ERROR(Fails(Step::kRename));
    return RamFileSystem::RenameFile(from, to, token);
  }
  absl::Status DeleteFile(const std::string& path,
                          TransactionToken* token) override {
    TF_RETURN_IF_ERROR(Fails(Step::kDelete));
    return RamFileSystem::DeleteFile(path, token);
  }
};

void Register() {
  static const bool registered =
      Env::Default()
          ->RegisterFileSystem("failing", std::make_unique<FailingFileSystem>())
          .ok();
  EXPECT(registered);
}

TEST(ARemoteFileIsWholeWhicheverStepFails) {
  Register();
  for (const Step step : {Step::kCreate, Step::kOpen, Step::kAppend,
                          Step::kRename, Step::kDelete}) {
    const std::string cache =
        "failing://cache" + std::to_string(static_cast<int>(step));
    const std::string path = cache + "/cpu/block.json";
    EXPECT(WriteCacheFile(cache, path, "before").ok());
    FailingStep() = step;
    const absl::Status status = WriteCacheFile(cache, path, "after");
    FailingStep() = Step::kNone;
    EXPECT(absl::IsUnavailable(status));
    EXPECT(*ReadCacheFile(cache, path) == "before");
    std::vector<std::string> names;
    EXPECT(Env::Default()->GetChildren(cache + "/cpu", &names).ok());
    EXPECT(names.size() == (step == Step::kDelete ? 2 : 1));
    for (const std::string& name : names) {
      EXPECT(name == "block.json" || absl::EndsWith(name, ".tmp"));
    }
  }
}

TEST(RemoteFilesHaveALimit) {
  Register();
  const std::string path = "failing://limit/block.json";
  EXPECT(WriteCacheFile("failing://limit", path, "12345678").ok());
  EXPECT(ReadCacheFile("failing://limit", path, 8).ok());
  EXPECT(absl::IsFailedPrecondition(
      ReadCacheFile("failing://limit", path, 7).status()));
  EXPECT(
      absl::IsNotFound(ReadCacheFile("failing://limit", path + "x").status()));
}

}  // namespace
}  // namespace ios::tf

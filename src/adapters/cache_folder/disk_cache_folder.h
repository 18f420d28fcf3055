// DiskCacheFolder: the folder of ports/cache_folder.h on a disk, with a thread of its own.
//
// A file is written under a temporary name, synced, renamed over the old one, and its folder
// synced. Files are readable by this user only (the configuration may tell more than the world
// should know); the folder is made when it is missing.
//
// Thread: made, used and destroyed on the thread of its loop, which must outlive it. Destroying it
// drops what has not begun and waits for what has.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "adapters/file_store/worker_pool.h"
#include "base/result.h"
#include "ports/cache_folder.h"
#include "ports/loop.h"
#include "ports/pending.h"

namespace nstance {

// Replaces the file at `path` by one with these bytes: whole or not at all. Blocks. One writer per
// path at a time.
[[nodiscard]] Status ReplaceFile(const std::string& path, std::string_view bytes,
                                 mode_t mode = 0600);

class DiskCacheFolder final : public CacheFolder {
 public:
  DiskCacheFolder(Loop& loop, std::string directory);
  ~DiskCacheFolder() override;

  [[nodiscard]] Pending Read(std::string_view name, ReadDone done) override;
  [[nodiscard]] Pending Write(std::string_view name, std::string bytes, WriteDone done) override;

 private:
  using Answer = std::move_only_function<void()>;
  struct Desk;  // Who waits for an answer; only touched on the loop.

  // `work` runs on the thread and gives what is to be run on the loop.
  template <class T>
  [[nodiscard]] Pending Ask(std::string_view name, std::move_only_function<void(Result<T>)> done,
                            std::move_only_function<Result<T>(const std::string& path)> work);

  Loop& loop_;
  const std::string directory_;
  std::shared_ptr<Desk> desk_;
  std::unique_ptr<WorkerPool> pool_;  // Last: its thread uses all of the above.
};

}  // namespace nstance

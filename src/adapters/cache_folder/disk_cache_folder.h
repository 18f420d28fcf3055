// DiskCacheFolder: the folder of ports/cache_folder.h on a disk, with a thread of its own.
//
// A file is written under a temporary name, synced, renamed over the old one, and its folder
// synced. Files are readable by this user only (the configuration may tell more than the world
// should know); the folder is made when it is missing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ports/cache_folder.h"
#include "ports/loop.h"
#include "ports/pending.h"

namespace nstance {

// Replaces the file at `path` by one with these bytes: whole or not at all. Blocks.
[[nodiscard]] Status ReplaceFile(const std::string& path, std::string_view bytes);

class DiskCacheFolder final : public CacheFolder {
 public:
  // `loop` must outlive the folder.
  DiskCacheFolder(Loop& loop, std::string directory);
  // Waits for what is being written.
  ~DiskCacheFolder() override;

  [[nodiscard]] Pending Read(std::string_view name, ReadDone done) override;
  [[nodiscard]] Pending Write(std::string_view name, std::string bytes, WriteDone done) override;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace nstance

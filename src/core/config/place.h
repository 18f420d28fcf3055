// Place: where a reader of a JSON document stands, for messages. A chain of keys and indices from
// the root that lives on the stack of whoever walks; the text of the path is made only when it is
// asked for.
//
//   const Place server = root.Child("server");
//   problems.Error(server.Child("shard"), "...");   // "server.shard", at its line and column
//
// A place need not exist: then it has no value, and stands where its nearest ancestor does.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"

namespace nstance::config {

class Place {
 public:
  // `root` outlives the place; so do the ancestors of every place that is made from another.
  explicit Place(const json::Value& root)
      : value_(&root), position_(root.position()), key_position_(root.position()) {}

  // The member `key`, whether it is there or not.
  [[nodiscard]] Place Child(std::string_view key) const;
  // The same without looking for it. `member` is one of this object's.
  [[nodiscard]] Place Child(const json::Member& member) const;
  // REQUIRES: a list with more than `index` items.
  [[nodiscard]] Place Item(std::size_t index) const;

  // Null: not in the document.
  [[nodiscard]] const json::Value* value() const { return value_; }
  [[nodiscard]] json::Position position() const { return position_; }
  [[nodiscard]] json::Position key_position() const { return key_position_; }
  [[nodiscard]] const Place* parent() const { return parent_; }
  [[nodiscard]] std::string_view key() const { return key_; }

  // `templates.knd.files["node.env"].kind`, `groups.a.b.load_balancers[0]`.
  [[nodiscard]] std::string Path() const;
  // Under `secrets`, `vars`, `args` or `userdata`: no message shows the value.
  [[nodiscard]] bool hidden() const;

 private:
  Place() = default;

  const Place* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
  bool is_item_ = false;
  const json::Value* value_ = nullptr;
  json::Position position_;
  json::Position key_position_;
};

// `key` as a step of a path: ".name", `["a.b"]`; without the dot at the front of one.
void AppendStep(std::string& path, std::string_view key);

}  // namespace nstance::config

#include "core/config/place.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance::config {
namespace {

constexpr std::array<std::string_view, 4> kHidden = {"secrets", "vars", "args", "userdata"};

bool IsPlain(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '$';
  });
}

}  // namespace

Place Place::Child(std::string_view key) const {
  if (value_ != nullptr) {
    if (const json::Object* members = value_->if_object()) {
      const auto at = std::ranges::find(*members, key, &json::Member::key);
      if (at != members->end()) return Child(*at);
    }
  }
  Place child;
  child.parent_ = this;
  child.key_ = key;
  child.position_ = position_;
  child.key_position_ = position_;
  return child;
}

Place Place::Child(const json::Member& member) const {
  Place child;
  child.parent_ = this;
  child.key_ = member.key;
  child.value_ = &member.value;
  child.position_ = member.value.position();
  child.key_position_ = member.key_position;
  return child;
}

Place Place::Item(std::size_t index) const {
  const json::Array* items = value_ == nullptr ? nullptr : value_->if_array();
  CHECK(items != nullptr && index < items->size(), "no item {}", index);
  Place child;
  child.parent_ = this;
  child.index_ = index;
  child.is_item_ = true;
  child.value_ = &(*items)[index];
  child.position_ = child.value_->position();
  child.key_position_ = child.position_;
  return child;
}

std::string Place::Path() const {
  std::vector<const Place*> chain;
  for (const Place* at = this; at->parent_ != nullptr; at = at->parent_) chain.push_back(at);
  std::string path;
  for (const Place* at : chain | std::views::reverse) {
    if (at->is_item_) {
      path += fmt::format("[{}]", at->index_);
    } else {
      AppendStep(path, at->key_);
    }
  }
  return path;
}

bool Place::hidden() const {
  for (const Place* at = this; at != nullptr; at = at->parent_) {
    if (!at->is_item_ && std::ranges::find(kHidden, at->key_) != kHidden.end()) return true;
  }
  return false;
}

void AppendStep(std::string& path, std::string_view key) {
  if (!IsPlain(key)) {
    path += '[';
    path += Quote(key);
    path += ']';
    return;
  }
  if (!path.empty()) path += '.';
  path += key;
}

}  // namespace nstance::config

#include "base/xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance::xml {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

struct Entity {
  std::string_view name;
  char character;
};
constexpr auto kEntities =
    std::to_array<Entity>({{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}});

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool IsNameCharacter(char c) {
  return IsNameStart(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':';
}

// The production Char of XML 1.0.
bool IsXmlCharacter(std::uint32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n' || c == '\r';
  return c <= 0xD7FF || (c >= 0xE000 && c <= 0xFFFD) || (c >= 0x10000 && c <= 0x10FFFF);
}

class Parser final {
 public:
  Parser(std::string_view text, const ParseOptions& options) : text_(text), options_(options) {}

  Result<Element> Run() {
    RETURN_IF_ERROR(SkipDeclaration());
    SkipSpace();
    if (!Next('<')) return Bad("no element where the root is expected");
    RETURN_IF_ERROR(OpenElement());
    while (!open_.empty()) RETURN_IF_ERROR(ReadContent());
    SkipSpace();
    if (at_ != text_.size()) return Bad("something after the root element");
    return std::move(root_);
  }

 private:
  [[nodiscard]] std::unexpected<Error> Bad(std::string_view what) const {
    options_.source.Bad("xml-syntax");
    return Fail(InvalidArgument(Where() + std::string(what)));
  }

  [[nodiscard]] std::unexpected<Error> Limit(std::string_view limit, std::size_t value) const {
    options_.source.Limit(limit);
    return Fail(ResourceExhausted(fmt::format("{}more than {} ({})", Where(), value, limit)));
  }

  // "line:column: ", counted only when something is wrong.
  [[nodiscard]] std::string Where() const {
    const std::string_view read = text_.substr(0, at_);
    const auto lines = std::ranges::count(read, '\n');
    const std::size_t start = read.rfind('\n') + 1;  // npos + 1 is 0.
    return fmt::format("{}:{}: ", lines + 1, at_ - start + 1);
  }

  [[nodiscard]] std::string_view Rest() const { return text_.substr(at_); }

  bool Next(std::string_view expected) {
    if (!Rest().starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  bool Next(char expected) { return Next(std::string_view(&expected, 1)); }

  // Tells whether there was any.
  bool SkipSpace() {
    const std::size_t start = at_;
    at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
    return at_ != start;
  }

  Status SkipDeclaration() {
    if (!Rest().starts_with("<?xml ")) return {};
    const std::size_t end = text_.find("?>");
    if (end == std::string_view::npos) return Bad("a declaration without end");
    if (text_.substr(1, end).contains('<')) return Bad("a declaration that holds markup");
    at_ = end + 2;
    return {};
  }

  Result<std::string_view> ReadName() {
    const std::string_view rest = Rest();
    if (rest.empty() || !IsNameStart(rest.front())) return Bad("no name where one is expected");
    const auto end = std::ranges::find_if_not(rest, IsNameCharacter);
    const auto length = static_cast<std::size_t>(end - rest.begin());
    at_ += length;
    return rest.substr(0, length);
  }

  // After `<`: the start of an element, to its `>`.
  Status OpenElement() {
    if (open_.size() == options_.max_depth) return Limit("xml-depth", options_.max_depth);
    if (++elements_ > options_.max_elements) return Limit("xml-elements", options_.max_elements);
    ASSIGN_OR_RETURN(const std::string_view name, ReadName());
    open_.push_back({.name = std::string(name)});
    for (;;) {
      const bool space = SkipSpace();
      if (Next('>')) return {};
      if (Next("/>")) return CloseElement();
      if (!space) return Bad("an element that does not end where it should");
      RETURN_IF_ERROR(SkipAttribute());
    }
  }

  Status SkipAttribute() {
    RETURN_IF_ERROR(ReadName());
    SkipSpace();
    if (!Next('=')) return Bad("an attribute without value");
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '"' && quote != '\'') return Bad("an attribute whose value is not quoted");
    ++at_;
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return Bad("an attribute without end");
    const std::string_view value = text_.substr(at_, end - at_);
    if (value.contains('<')) return Bad("an attribute that holds markup");
    std::string dropped;
    RETURN_IF_ERROR(AppendText(dropped, value));
    at_ = end + 1;
    return {};
  }

  // Text up to the next `<`, and what begins there.
  Status ReadContent() {
    const std::size_t end = text_.find('<', at_);
    if (end == std::string_view::npos) {
      at_ = text_.size();
      return Bad("the end of the text inside an element");
    }
    RETURN_IF_ERROR(AppendText(open_.back().text, text_.substr(at_, end - at_)));
    at_ = end;
    if (Next("</")) {
      ASSIGN_OR_RETURN(const std::string_view name, ReadName());
      if (name != open_.back().name) return Bad("the end of an element that is not open");
      SkipSpace();
      if (!Next('>')) return Bad("an end tag that does not end where it should");
      return CloseElement();
    }
    ++at_;
    return OpenElement();
  }

  Status CloseElement() {
    Element done = std::move(open_.back());
    open_.pop_back();
    (open_.empty() ? root_ : open_.back().children.emplace_back()) = std::move(done);
    return {};
  }

  // Leaves at_ at the offending place when there is one. `piece` is part of the text.
  Status AppendText(std::string& out, std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t plain = std::min(piece.find('&'), piece.size());
      const auto wrong = std::ranges::find_if(piece.substr(0, plain), [](char c) {
        return !IsXmlCharacter(static_cast<unsigned char>(c));
      });
      if (wrong != piece.begin() + static_cast<std::ptrdiff_t>(plain)) {
        at_ = static_cast<std::size_t>(&*wrong - text_.data());
        return Bad("a control character");
      }
      out += piece.substr(0, plain);
      piece.remove_prefix(plain);
      if (piece.empty()) return {};
      at_ = static_cast<std::size_t>(piece.data() - text_.data());
      const std::size_t end = piece.find(';');
      if (end == std::string_view::npos) return Bad("a reference without end");
      RETURN_IF_ERROR(AppendReference(out, piece.substr(1, end - 1)));
      piece.remove_prefix(end + 1);
    }
    return {};
  }

  Status AppendReference(std::string& out, std::string_view name) {
    const auto* entity = std::ranges::find(kEntities, name, &Entity::name);
    if (entity != kEntities.end()) {
      out += entity->character;
      return {};
    }
    if (!name.starts_with('#')) return Bad("an entity that is none of the five");
    const bool hex = name.starts_with("#x");
    const std::string_view digits = name.substr(hex ? 2 : 1);
    std::uint32_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, value, hex ? 16 : 10);
    if (read.ec != std::errc() || read.ptr != end || !IsXmlCharacter(value)) {
      return Bad("a reference to no character");
    }
    AppendUtf8(out, value);
    return {};
  }

  std::string_view text_;
  const ParseOptions& options_;
  std::size_t at_ = 0;
  std::size_t elements_ = 0;
  std::vector<Element> open_;  // The root first.
  Element root_;
};

}  // namespace

const Element* Element::Find(std::string_view child) const {
  const auto found = std::ranges::find(children, child, &Element::name);
  return found == children.end() ? nullptr : &*found;
}

std::string_view Element::TextOf(std::string_view child) const {
  const Element* found = Find(child);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<Element> Parse(std::string_view text, const ParseOptions& options) {
  CHECK(options.max_depth >= 1 && options.max_depth <= kMaxDepth, "{}", options.max_depth);
  if (text.size() > options.max_bytes) {
    options.source.Limit("xml-bytes");
    return Fail(ResourceExhausted(
        fmt::format("{} bytes of XML; at most {}", text.size(), options.max_bytes)));
  }
  if (!IsValidUtf8(text)) {
    options.source.Bad("utf8");
    return Fail(InvalidArgument("XML that is not UTF-8"));
  }
  return Parser(text, options).Run();
}

}  // namespace nstance::xml

#include "core/config/template_sources.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "core/config/check.h"

namespace nstance::config {
namespace {

// Longer ones are listed even without actions, so that the parser can refuse them.
constexpr std::size_t kLongTemplate = std::size_t{256} * 1024;

bool IsTemplate(const std::string& text) {
  return text.find("{{") != std::string::npos || text.size() > kLongTemplate;
}

class Collector {
 public:
  explicit Collector(const Problems& problems) : problems_(problems) {}

  void Text(const Place& place, TemplateUse use) {
    const std::string* text = TextAt(place);
    if (text == nullptr || !IsTemplate(*text)) return;
    Add(place, use, *text).segments = {{.offset = 0, .at = place.position()}};
  }

  // Every string leaf.
  void Leaves(const Place& place, TemplateUse use) {
    if (!Present(place)) return;
    Text(place, use);
    for (const json::Member& member : MembersAt(place)) Leaves(place.Child(member), use);
    const json::Array* items = place.value()->if_array();
    for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
      Leaves(place.Item(i), use);
    }
  }

  void UserDataOf(const Place& place, const UserData& userdata) {
    if (userdata.effective_source() != UserDataSource::kInline) return;
    const Place content = place.Child("content");
    if (userdata.effective_encoding() == UserDataEncoding::kBase64) {
      std::string packed = userdata.content;
      std::erase_if(packed, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
      const Result<Bytes> bytes = Base64Decode(packed);
      if (!bytes) return;
      const std::string text(AsText(*bytes));
      if (IsTemplate(text)) Add(content, TemplateUse::kUserData, text);
      return;
    }
    if (userdata.effective_encoding() != UserDataEncoding::kPlain) return;
    if (content.value()->if_string() != nullptr) {
      Text(content, TemplateUse::kUserData);
    } else if (IsTemplate(userdata.content)) {
      Lines(content, Add(content, TemplateUse::kUserData, userdata.content));
    }
  }

  std::vector<TemplateSource> Take() {
    const auto where = [](const TemplateSource& source) {
      return std::tuple(source.at.line, source.at.column);
    };
    std::ranges::sort(sources_, {}, where);  // No two stand at one place.
    return std::move(sources_);
  }

 private:
  TemplateSource& Add(const Place& place, TemplateUse use, const std::string& text) {
    sources_.push_back({.use = use,
                        .path = problems_.NameInFile(place.Path()),
                        .at = place.position(),
                        .text = text});
    return sources_.back();
  }

  static void Lines(const Place& content, TemplateSource& source) {
    const json::Array& lines = *content.value()->if_array();
    std::size_t offset = 0;
    for (const json::Value& line : lines) {
      source.segments.push_back({.offset = offset, .at = line.position()});
      offset += line.if_string()->size() + 1;
    }
  }

  const Problems& problems_;
  std::vector<TemplateSource> sources_;
};

void CollectFile(const Place& place, const File& file, Collector& collector) {
  collector.Text(place.Child("source"), TemplateUse::kFile);
  if (file.kind != FileKind::kCertificate) {
    collector.Leaves(place.Child("template"), TemplateUse::kFile);
  }
}

void CollectTemplate(const Place& place, const Template& entry, Collector& collector) {
  collector.Leaves(place.Child("args"), TemplateUse::kArgs);
  if (entry.userdata) collector.UserDataOf(place.Child("userdata"), *entry.userdata);
  const Place files = place.Child("files");
  for (const json::Member& member : MembersAt(files)) {
    const auto file = entry.files.find(member.key);
    if (file != entry.files.end()) CollectFile(files.Child(member), file->second, collector);
  }
}

// Bytes of UTF-8 that the escape at the front of `raw` stands for, and how long it is itself.
struct Escape {
  std::size_t decoded = 1;
  std::size_t raw = 2;
};

unsigned HexValue(std::string_view digits) {
  unsigned value = 0;
  for (const char c : digits) {
    const unsigned digit =
        c <= '9' ? static_cast<unsigned>(c - '0') : (static_cast<unsigned>(c) & 0xDFU) - 'A' + 10U;
    value = (value * 16U) + (digit & 0xFU);
  }
  return value;
}

Escape ReadEscape(std::string_view raw) {
  if (raw.size() < 6 || raw[1] != 'u') return {};
  const unsigned code = HexValue(raw.substr(2, 4));
  if (code >= 0xD800 && code < 0xDC00) return {.decoded = 4, .raw = 12};
  if (code >= 0x800) return {.decoded = 3, .raw = 6};
  return {.decoded = code >= 0x80 ? 2U : 1U, .raw = 6};
}

// Where line `line` begins.
std::size_t LineStart(std::string_view text, std::uint32_t line) {
  std::size_t start = 0;
  for (std::uint32_t at = 1; at < line; ++at) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string_view::npos) return text.size();
    start = end + 1;
  }
  return start;
}

}  // namespace

std::vector<TemplateSource> TemplateSources(const Place& root, const Config& config,
                                            const Problems& problems) {
  Collector collector(problems);
  const Place certificates = root.Child("certificates");
  for (const json::Member& member : MembersAt(certificates)) {
    if (!config.certificates.named.contains(member.key)) continue;
    collector.Leaves(certificates.Child(member), TemplateUse::kCertificate);
  }
  const Place defaults = root.Child("defaults");
  collector.Leaves(defaults.Child("args"), TemplateUse::kArgs);
  if (config.defaults.userdata) {
    collector.UserDataOf(defaults.Child("userdata"), *config.defaults.userdata);
  }
  const Place templates = root.Child("templates");
  for (const json::Member& member : MembersAt(templates)) {
    const auto entry = config.templates.find(member.key);
    if (entry == config.templates.end()) continue;
    CollectTemplate(templates.Child(member), entry->second, collector);
  }
  const Place groups = root.Child("groups");
  for (const json::Member& tenant : MembersAt(groups)) {
    const Place tenant_place = groups.Child(tenant);
    for (const json::Member& group : MembersAt(tenant_place)) {
      const Place group_place = tenant_place.Child(group);
      collector.Leaves(group_place.Child("args"), TemplateUse::kArgs);
    }
  }
  return collector.Take();
}

json::Position PlaceInFile(std::string_view file_text, const TemplateSource& source,
                           std::size_t offset) {
  const TemplateSource::Segment* segment = nullptr;
  for (const TemplateSource::Segment& candidate : source.segments) {
    if (candidate.offset <= offset) segment = &candidate;
  }
  if (segment == nullptr || segment->at.line == 0) return source.at;
  const std::size_t start = LineStart(file_text, segment->at.line) + segment->at.column - 1;
  std::size_t at = start + 1;  // Behind the opening quote.
  for (std::size_t left = offset - segment->offset; left > 0 && at < file_text.size();) {
    if (file_text[at] == '"') break;
    const Escape step =
        file_text[at] == '\\' ? ReadEscape(file_text.substr(at)) : Escape{.decoded = 1, .raw = 1};
    if (step.decoded > left) break;
    left -= step.decoded;
    at += step.raw;
  }
  return {.line = segment->at.line,
          .column = segment->at.column + static_cast<std::uint32_t>(at - start)};
}

}  // namespace nstance::config

#include "core/template/functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"
#include "core/template/format.h"
#include "core/template/sink.h"
#include "core/template/unicode.h"

namespace nstance::tmpl {
namespace {

// In the order of the enumeration, which is that of the names.
constexpr std::array<Signature, 21> kSignatures = {{
    {.name = "and", .fixed = 1, .variadic = true},
    {.name = "call", .fixed = 1, .variadic = true},
    {.name = "eq", .fixed = 1, .variadic = true},
    {.name = "ge", .fixed = 2},
    {.name = "gt", .fixed = 2},
    {.name = "html", .variadic = true},
    {.name = "index", .fixed = 1, .variadic = true},
    {.name = "js", .variadic = true},
    {.name = "le", .fixed = 2},
    {.name = "len", .fixed = 1},
    {.name = "lt", .fixed = 2},
    {.name = "ne", .fixed = 2},
    {.name = "not", .fixed = 1},
    {.name = "or", .fixed = 1, .variadic = true},
    {.name = "print", .variadic = true},
    {.name = "printf", .fixed = 1, .variadic = true, .first_is_string = true},
    {.name = "println", .variadic = true},
    {.name = "shellquote", .fixed = 1},
    {.name = "slice", .fixed = 1, .variadic = true},
    {.name = "urlquery", .variadic = true},
    {.name = "yamlquote", .fixed = 1},
}};

using Arguments = std::span<const View>;

bool Error(CallContext& context, std::string message) {
  context.error = std::move(message);
  return false;
}

// --- Texts --------------------------------------------------------------------------------------

// The buffer of the context as a sink, and then as the result.
class TextResult final {
 public:
  explicit TextResult(CallContext& context)
      : context_(context), sink_(*context.buffer, context.max_text) {
    context.buffer->clear();
  }

  Sink& sink() { return sink_; }

  bool Finish(View& result) {
    context_.work += context_.buffer->size();
    if (sink_.full()) {
      context_.too_large = true;
      return Error(context_, fmt::format("the text is longer than {} bytes", context_.max_text));
    }
    result = View::String(context_.scratch->Keep(*context_.buffer));
    return true;
  }

 private:
  CallContext& context_;
  Sink sink_;
};

void EscapeHtml(Sink& sink, std::string_view text) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string_view escape;
    switch (text[i]) {
      case '\0': escape = "\xEF\xBF\xBD"; break;
      case '"': escape = "&#34;"; break;
      case '\'': escape = "&#39;"; break;
      case '&': escape = "&amp;"; break;
      case '<': escape = "&lt;"; break;
      case '>': escape = "&gt;"; break;
      default: continue;
    }
    sink.Append(text.substr(last, i - last));
    sink.Append(escape);
    last = i + 1;
  }
  sink.Append(text.substr(last));
}

void EscapeJs(Sink& sink, std::string_view text) {
  while (!text.empty()) {
    const Decoded next = DecodeFirst(text);
    const std::string_view bytes = text.substr(0, next.size);
    text.remove_prefix(next.size);
    switch (next.code_point) {
      case '\\': sink.Append("\\\\"); continue;
      case '\'': sink.Append("\\'"); continue;
      case '"': sink.Append("\\\""); continue;
      case '<': sink.Append("\\u003C"); continue;
      case '>': sink.Append("\\u003E"); continue;
      case '&': sink.Append("\\u0026"); continue;
      case '=': sink.Append("\\u003D"); continue;
      default: break;
    }
    const bool plain = next.code_point == 0x7F || IsPrintable(next.code_point);
    if (plain) {
      sink.Append(bytes);
    } else {
      sink.Append(fmt::format("\\u{:04X}", static_cast<std::uint32_t>(next.code_point)));
    }
  }
}

void EscapeUrlQuery(Sink& sink, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    const bool kept = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '-' || c == '_' || c == '.' || c == '~';
    if (kept || c == ' ') {
      sink.Append(kept ? c : '+');
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    sink.Append('%');
    sink.Append(kDigits[byte >> 4U]);
    sink.Append(kDigits[byte & 15U]);
  }
}

// What `html`, `js` and `urlquery` escape: their arguments as an action would print them.
std::string_view PrintedArguments(Arguments arguments, std::string& storage, std::size_t limit) {
  if (arguments.size() == 1 && arguments[0].kind == Kind::kString) return arguments[0].string();
  std::vector<View> shown(arguments.begin(), arguments.end());
  for (View& view : shown) {
    if (view.kind == Kind::kNil) view = View::String("<no value>");
  }
  Sink sink(storage, limit);
  Print(sink, shown);
  // Too long already: so will be what is made of it.
  if (sink.full()) storage.append(limit + 1 - std::min(limit, storage.size()), ' ');
  return storage;
}

bool Escape(Function function, Arguments arguments, CallContext& context, View& result) {
  std::string storage;
  const std::string_view text = PrintedArguments(arguments, storage, context.max_text);
  TextResult out(context);
  switch (function) {
    case Function::kHtml: EscapeHtml(out.sink(), text); break;
    case Function::kJs: EscapeJs(out.sink(), text); break;
    default: EscapeUrlQuery(out.sink(), text); break;
  }
  return out.Finish(result);
}

bool ShellQuote(const View& value, CallContext& context, View& result) {
  if (value.kind == Kind::kNil || value.kind >= Kind::kList) {
    return Error(context,
                 fmt::format("a value of type {} is no shell word; give a string, a number "
                             "or a boolean",
                             value.TypeName()));
  }
  std::string storage;
  const std::string_view text = PrintedArguments({&value, 1}, storage, context.max_text);
  if (text.contains('\0')) return Error(context, "a shell word cannot hold a NUL byte");
  TextResult out(context);
  out.sink().Append('\'');
  std::size_t last = 0;
  for (std::size_t i = text.find('\''); i != std::string_view::npos; i = text.find('\'', i + 1)) {
    out.sink().Append(text.substr(last, i - last));
    out.sink().Append("'\\''");
    last = i + 1;
  }
  out.sink().Append(text.substr(last));
  out.sink().Append('\'');
  return out.Finish(result);
}

void AppendYamlCharacter(Sink& sink, char32_t code_point, std::string_view bytes) {
  switch (code_point) {
    case '"': sink.Append("\\\""); return;
    case '\\': sink.Append("\\\\"); return;
    case '\n': sink.Append("\\n"); return;
    case '\r': sink.Append("\\r"); return;
    case '\t': sink.Append("\\t"); return;
    default: break;
  }
  const bool control = code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
  const bool breaks = code_point == 0x2028 || code_point == 0x2029 || code_point == 0xFEFF;
  if (control || breaks || code_point == 0xFFFE || code_point == 0xFFFF) {
    sink.Append(fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code_point)));
  } else {
    sink.Append(bytes);
  }
}

bool YamlQuote(const View& value, CallContext& context, View& result) {
  TextResult out(context);
  if (value.kind == Kind::kNil) {
    out.sink().Append("null");
  } else if (value.kind == Kind::kFloat && !std::isfinite(value.real)) {
    out.sink().Append(std::isnan(value.real) ? ".nan" : (value.real < 0 ? "-.inf" : ".inf"));
  } else if (value.kind >= Kind::kList) {
    return Error(context,
                 fmt::format("a value of type {} is no YAML scalar; give a string, a number "
                             "or a boolean",
                             value.TypeName()));
  } else if (value.kind != Kind::kString) {
    PrintOne(out.sink(), value);
  } else {
    std::string_view text = value.string();
    if (!IsValidUtf8(text)) return Error(context, "a YAML scalar must be UTF-8");
    out.sink().Append('"');
    for (; !text.empty() && !out.sink().full();) {
      const Decoded next = DecodeFirst(text);
      AppendYamlCharacter(out.sink(), next.code_point, text.substr(0, next.size));
      text.remove_prefix(next.size);
    }
    out.sink().Append('"');
  }
  return out.Finish(result);
}

// --- Lists, maps and strings --------------------------------------------------------------------

// An index that is at most `limit`.
bool ReadIndex(const View& index, std::size_t limit, CallContext& context, std::size_t& at) {
  if (index.kind == Kind::kNil && !index.boxed) {
    return Error(context, "cannot index slice/array with nil");
  }
  if (!index.is_integer() || index.boxed) {
    return Error(context, fmt::format("cannot index slice/array with type {}",
                                      index.boxed ? "interface {}" : index.TypeName()));
  }
  if (index.integer < 0 || static_cast<std::uint64_t>(index.integer) > limit) {
    return Error(context, fmt::format("index out of range: {}", index.integer));
  }
  at = static_cast<std::size_t>(index.integer);
  return true;
}

bool IndexOnce(View& item, View index, CallContext& context) {
  index.boxed = false;
  if (item.kind == Kind::kList || item.kind == Kind::kString) {
    std::size_t at = 0;
    if (!ReadIndex(index, item.size, context, at)) return false;
    if (at == item.size) {
      return Error(context, item.kind == Kind::kList ? "reflect: slice index out of range"
                                                     : "reflect: string index out of range");
    }
    item = item.kind == Kind::kList
               ? View::Element(item.items[at])
               : View::Integer(Kind::kByte, static_cast<unsigned char>(item.text[at]));
    return true;
  }
  if (item.kind == Kind::kMap) {
    if (index.kind == Kind::kNil) return Error(context, "value is nil; should be of type string");
    if (index.kind != Kind::kString) {
      return Error(context, fmt::format("value has type {}; should be string", index.TypeName()));
    }
    const Value* const found = item.map->Find(index.string());
    item = found == nullptr ? View::String("") : View::Element(*found);
    return true;
  }
  if (item.kind == Kind::kNil) return Error(context, "index of nil pointer");
  return Error(context, fmt::format("can't index item of type {}", item.TypeName()));
}

bool Index(Arguments arguments, CallContext& context, View& result) {
  View item = arguments[0];
  if (item.kind == Kind::kNil) return Error(context, "index of untyped nil");
  for (const View& index : arguments.subspan(1)) {
    if (!IndexOnce(item, index, context)) return false;
  }
  result = item;
  return true;
}

bool TakeSlice(Arguments arguments, CallContext& context, View& result) {
  View item = arguments[0];
  const Arguments indexes = arguments.subspan(1);
  if (item.kind == Kind::kNil) return Error(context, "slice of untyped nil");
  if (indexes.size() > 3) {
    return Error(context, fmt::format("too many slice indexes: {}", indexes.size()));
  }
  const bool is_string = item.kind == Kind::kString;
  if (is_string && indexes.size() == 3) return Error(context, "cannot 3-index slice a string");
  if (!is_string && item.kind != Kind::kList) {
    return Error(context, fmt::format("can't slice item of type {}", item.TypeName()));
  }
  const std::size_t capacity = is_string ? item.size : item.capacity;
  std::array<std::size_t, 3> at = {0, item.size, capacity};
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    if (!ReadIndex(indexes[i], capacity, context, at.at(i))) return false;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (at.at(i) > at.at(i + 1)) {
      return Error(context, fmt::format("invalid slice index: {} > {}", at.at(i), at.at(i + 1)));
    }
  }
  if (is_string) {
    result = View::String(item.string().substr(at[0], at[1] - at[0]));
    return true;
  }
  item.boxed = false;
  item.items += at[0];
  item.size = at[1] - at[0];
  item.capacity = static_cast<std::uint32_t>(at[2] - at[0]);
  result = item;
  return true;
}

bool Length(const View& item, CallContext& context, View& result) {
  switch (item.kind) {
    case Kind::kNil: return Error(context, "len of nil pointer");
    case Kind::kString:
    case Kind::kList: result = View::Int(static_cast<std::int64_t>(item.size)); return true;
    case Kind::kMap:
      result = View::Int(static_cast<std::int64_t>(item.map->members.size()));
      return true;
    default: return Error(context, fmt::format("len of type {}", item.TypeName()));
  }
}

// --- Comparison ---------------------------------------------------------------------------------

bool IsBasic(const View& view) { return view.kind >= Kind::kBool && view.kind <= Kind::kString; }

// Integers compare whatever their type is.
bool SameBasicKind(const View& a, const View& b) {
  return a.kind == b.kind || (a.is_integer() && b.is_integer());
}

bool Incompatible(const View& a, const View& b, CallContext& context) {
  return Error(context, fmt::format("incompatible types for comparison: {} and {}", a.TypeName(),
                                    b.TypeName()));
}

bool BasicEqual(const View& a, const View& b, CallContext& context) {
  switch (a.kind) {
    case Kind::kFloat: return a.real == b.real;
    case Kind::kString:
      if (a.size == b.size) context.work += a.size;
      return a.string() == b.string();
    default: return a.integer == b.integer;
  }
}

bool EqualRecords(const View& a, const View& b, CallContext& context, bool& equal);

// Of two that are not basic.
bool EqualOthers(const View& a, const View& b, CallContext& context, bool& equal) {
  if (a.kind == Kind::kNil || b.kind == Kind::kNil) {
    equal = a.kind == b.kind;
    return true;
  }
  if (a.kind != b.kind) {
    return Error(context,
                 fmt::format("non-comparable types {} and {}", a.TypeName(), b.TypeName()));
  }
  if (b.kind != Kind::kRecord) {
    return Error(context, fmt::format("non-comparable type {}", b.TypeName()));
  }
  return EqualRecords(a, b, context, equal);
}

bool EqualRecords(const View& a, const View& b, CallContext& context, bool& equal) {
  equal = a.record->type == b.record->type;
  for (std::size_t i = 0; i < b.record->fields.size(); ++i) {
    const View right = View::Of(b.record->fields[i]);
    if (right.kind == Kind::kList || right.kind == Kind::kMap) {
      return Error(context, fmt::format("non-comparable type {}", b.TypeName()));
    }
    if (!equal) continue;
    const View left = View::Of(a.record->fields[i]);
    if (left.kind != right.kind) {
      equal = false;
    } else if (IsBasic(left)) {
      equal = BasicEqual(left, right, context);
    } else if (!EqualOthers(left, right, context, equal)) {
      return false;
    }
  }
  return true;
}

bool Equal(const View& a, const View& b, CallContext& context, bool& equal) {
  equal = false;
  if (IsBasic(a) && IsBasic(b)) {
    if (!SameBasicKind(a, b)) return Incompatible(a, b, context);
    equal = BasicEqual(a, b, context);
    return true;
  }
  if (IsBasic(a) || IsBasic(b)) {
    const bool with_nil = a.kind == Kind::kNil || b.kind == Kind::kNil;
    return with_nil || Incompatible(a, b, context);
  }
  return EqualOthers(a, b, context, equal);
}

bool EqualAny(Arguments arguments, CallContext& context, View& result) {
  if (arguments.size() < 2) return Error(context, "missing argument for comparison");
  bool equal = false;
  for (const View& other : arguments.subspan(1)) {
    if (!Equal(arguments[0], other, context, equal)) return false;
    if (equal) break;
  }
  result = View::Bool(equal);
  return true;
}

bool Less(const View& a, const View& b, CallContext& context, bool& less) {
  constexpr std::string_view kBad = "invalid type for comparison";
  if (!IsBasic(a) || !IsBasic(b)) return Error(context, std::string(kBad));
  if (!SameBasicKind(a, b)) return Incompatible(a, b, context);
  switch (a.kind) {
    case Kind::kBool: return Error(context, std::string(kBad));
    case Kind::kFloat: less = a.real < b.real; break;
    case Kind::kString:
      context.work += std::min(a.size, b.size);
      less = a.string() < b.string();
      break;
    default: less = a.integer < b.integer; break;
  }
  return true;
}

bool Compare(Function function, Arguments arguments, CallContext& context, View& result) {
  const View& a = arguments[0];
  const View& b = arguments[1];
  bool less = false;
  bool equal = false;
  if (function == Function::kNe) {
    if (!Equal(a, b, context, equal)) return false;
    result = View::Bool(!equal);
    return true;
  }
  if (!Less(a, b, context, less)) return false;
  const bool with_equal = function == Function::kLe || function == Function::kGt;
  if (with_equal && !less && !Equal(a, b, context, equal)) return false;
  switch (function) {
    case Function::kLt: result = View::Bool(less); break;
    case Function::kLe: result = View::Bool(less || equal); break;
    case Function::kGt: result = View::Bool(!(less || equal)); break;
    default: result = View::Bool(!less); break;
  }
  return true;
}

}  // namespace

std::optional<Function> FindFunction(std::string_view name) {
  const auto* const found = std::ranges::lower_bound(kSignatures, name, {}, &Signature::name);
  if (found == kSignatures.end() || found->name != name) return std::nullopt;
  return static_cast<Function>(found - kSignatures.begin());
}

const Signature& SignatureOf(Function function) {
  return kSignatures.at(static_cast<std::size_t>(function));
}

std::string_view Scratch::Keep(std::string_view text) {
  constexpr std::size_t kChunk = std::size_t{4} * 1024;
  if (text.empty()) return "";
  while (mark_.chunk < chunks_.size() && chunks_[mark_.chunk].size - mark_.used < text.size()) {
    mark_ = {.chunk = mark_.chunk + 1};
  }
  if (mark_.chunk == chunks_.size()) {
    const std::size_t size = std::max(kChunk, text.size());
    chunks_.push_back({.bytes = std::make_unique_for_overwrite<char[]>(size), .size = size});
  }
  char* const to = chunks_[mark_.chunk].bytes.get() + mark_.used;
  std::memcpy(to, text.data(), text.size());
  mark_.used += text.size();
  return {to, text.size()};
}

bool Call(Function function, std::span<const View> arguments, CallContext& context, View& result) {
  context.work = 0;
  switch (function) {
    case Function::kEq: return EqualAny(arguments, context, result);
    case Function::kGe:
    case Function::kGt:
    case Function::kLe:
    case Function::kLt:
    case Function::kNe: return Compare(function, arguments, context, result);
    case Function::kHtml:
    case Function::kJs:
    case Function::kUrlQuery: return Escape(function, arguments, context, result);
    case Function::kIndex: return Index(arguments, context, result);
    case Function::kSlice: return TakeSlice(arguments, context, result);
    case Function::kLen: return Length(arguments[0], context, result);
    case Function::kNot: result = View::Bool(!arguments[0].Truth()); return true;
    case Function::kShellQuote: return ShellQuote(arguments[0], context, result);
    case Function::kYamlQuote: return YamlQuote(arguments[0], context, result);
    case Function::kAnd:
    case Function::kOr:
    case Function::kCall: break;
    case Function::kPrint:
    case Function::kPrintf:
    case Function::kPrintln: {
      TextResult out(context);
      if (function == Function::kPrint) Print(out.sink(), arguments);
      if (function == Function::kPrintln) PrintLine(out.sink(), arguments);
      if (function == Function::kPrintf) {
        context.work += arguments[0].size;
        PrintFormat(out.sink(), arguments[0].string(), arguments.subspan(1));
      }
      return out.Finish(result);
    }
  }
  CHECK(false, "function {} is no plain call", SignatureOf(function).name);
}

}  // namespace nstance::tmpl

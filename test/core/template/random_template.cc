#include "test/core/template/random_template.h"

#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "base/text.h"

namespace nstance::test {

std::string_view RandomTemplate::Pick(std::initializer_list<std::string_view> choices) {
  return choices.begin()[Below(choices.size())];
}

// --- Data ---------------------------------------------------------------------------------------

std::string RandomTemplate::Text() {
  std::string text;
  for (std::size_t left = Below(6); left > 0; --left) {
    text += Pick({"a",
                  "Z",
                  "0",
                  " ",
                  "é",
                  "€",
                  "😀",
                  "<",
                  "&",
                  "'",
                  "\"",
                  "\\",
                  "\n",
                  "\t",
                  "{{",
                  "=",
                  "%",
                  "\xE2\x80\x8B",
                  "\xE2\x80\xA8",
                  "\xC2\xAD",
                  "/",
                  "-",
                  "\x7F",
                  "\x01"});
  }
  return text;
}

std::string RandomTemplate::JsonString() {
  std::string out;
  json::AppendString(out, Text());
  return out;
}

std::string RandomTemplate::JsonList(int depth) {
  std::string out = "[";
  for (std::size_t i = Below(4); i > 0; --i) out += Json(depth - 1) + (i > 1 ? "," : "");
  return out + "]";
}

std::string RandomTemplate::JsonMap(int depth) {
  std::string out = "{";
  if (Chance(4)) out += R"("é 1":)" + Json(depth - 1) + ",";
  return out + R"("c":)" + Json(depth - 1) + R"(,"a":)" + Json(depth - 1) + R"(,"b":)" +
         Json(depth - 1) + "}";
}

std::string RandomTemplate::Json(int depth) {
  switch (Below(depth > 0 ? 9 : 6)) {
    case 0: return "null";
    case 1: return std::string(Pick({"true", "false"}));
    case 2: return fmt::format("{}", prng_.Between(-5, 300));
    case 3:
      return std::string(Pick({"0.5", "1e6", "1e21", "1e-7", "123456789.125", "-2.5e10", "1e308",
                               "5e-324", "9007199254740993", "0.1", "100000", "1000000"}));
    case 4:
    case 5: return JsonString();
    case 6: return JsonList(depth);
    default: return JsonMap(depth);
  }
}

std::string RandomTemplate::Data() {
  const auto base64 = [this] {
    std::string text = Text();
    if (Chance(4)) text += Pick({"\xFF", "\xC3", "\xED\xA0\x80", std::string_view("\0", 1)});
    return "\"" + Base64Encode(AsBytes(text)) + "\"";
  };
  std::string vars = "\"ROLE\":" + base64();
  if (Chance(2)) vars += ",\"B\":" + base64();
  if (Chance(2)) vars += ",\"A\":" + base64();
  return fmt::format(
      R"({{"Instance":{{"ID":{},"Kind":{},"Arch":"arm64","Type":""}},"Cluster":{{"ID":{},"CACert":{}}},)"
      R"("Vars":{{{}}},"Nonce":{},"Count":{},"Ratio":{},"Flag":{},"List":{},"Map":{}}})",
      JsonString(), JsonString(), JsonString(), JsonString(), vars, base64(), Below(5),
      Pick({"0", "0.25", "1e100", "-3.75"}), Pick({"true", "false"}), JsonList(2), JsonMap(2));
}

// --- Sources ------------------------------------------------------------------------------------

std::string RandomTemplate::Source() {
  calm_ = !Chance(4);
  std::string source;
  for (std::size_t i = Below(3); i > 0; --i) {
    const std::string name = fmt::format("d{}", i);
    const auto outer = std::exchange(variables_, {});
    defining_ = true;
    source += Action("define \"" + name + "\"") + Items(2) + Action("end");
    defining_ = false;
    variables_ = outer;
    templates_.push_back(name);
  }
  return source + Items(3);
}

std::string RandomTemplate::Broken() {
  std::string source = Source();
  constexpr std::string_view kAlphabet = "{}{}()|:=$.\"'`-+,%\\ \n0x1eid*/@é";
  for (std::size_t left = 1 + Below(2); left > 0 && !source.empty(); --left) {
    const std::size_t at = Below(source.size());
    switch (Below(3)) {
      case 0: source.insert(at, 1, kAlphabet[Below(kAlphabet.size())]); break;
      case 1: source[at] = kAlphabet[Below(kAlphabet.size())]; break;
      default: source.erase(at, 1 + Below(4)); break;
    }
  }
  return source;
}

std::string RandomTemplate::Items(int depth) {
  std::string out;
  const std::size_t visible = variables_.size();
  for (std::size_t left = 1 + Below(4); left > 0; --left) out += Item(depth);
  variables_.resize(visible);
  return out;
}

std::string RandomTemplate::Item(int depth) {
  switch (Below(depth > 0 ? 9 : 5)) {
    case 0: return std::string(Pick({"text", " ", "\n", "  x\n ", "é", "}}", "{ ", "a\tb"}));
    case 1: return Action(Declaration(2));
    case 2:
      if (loops_ > 0 && Chance(2)) {
        return Action("if " + Operand(1)) + Action(Pick({"break", "continue"})) + Action("end");
      }
      if (!templates_.empty() && !defining_) {
        return Action(fmt::format("template \"{}\" {}", templates_[Below(templates_.size())],
                                  Chance(3) ? "" : Pipeline(1)));
      }
      return Chance(4) ? "{{- /* a comment */ -}}" : Action(Pipeline(2));
    case 3:
    case 4: return Action(Pipeline(3));
    default: return Control(depth);
  }
}

std::string RandomTemplate::Action(std::string_view inside) {
  return fmt::format("{}{}{}", Pick({"{{", "{{ ", "{{- "}), inside, Pick({"}}", " }}", " -}}"}));
}

std::string RandomTemplate::Control(int depth) {
  if (Chance(3)) return Range(depth);
  const std::string_view word = Pick({"if", "with"});
  const std::size_t visible = variables_.size();
  std::string out = Action(fmt::format("{} {}", word, Chance(3) ? Declaration(1) : Pipeline(2)));
  out += Items(depth - 1);
  if (Chance(4)) out += Action(fmt::format("else {} {}", word, Pipeline(1))) + Items(depth - 1);
  if (Chance(2)) out += Action("else") + Items(depth - 1);
  variables_.resize(visible);
  return out + Action("end");
}

std::string RandomTemplate::Range(int depth) {
  const std::size_t visible = variables_.size();
  std::string subject(Pick({"2", "0", "3", "(len \"ab\")"}));
  if (!defining_ && Chance(2)) subject = Pick({"$.List", "$.Map", "$.Vars"});
  const bool pairs = subject.starts_with('$');
  if (!calm_ && !defining_) {
    subject =
        Pick({"$.List", "$.Map", "$.Map.c", "$.Map.a", "(slice $.List 0 1)", "$", ".", "nil"});
  }
  if (pairs ? Chance(2) : !calm_ && Chance(3)) {
    subject = "$i, $e := " + subject;
    variables_.insert(variables_.end(), {"$i", "$e"});
  } else if (Chance(3)) {
    subject = "$e := " + subject;
    variables_.emplace_back("$e");
  } else if (!variables_.empty() && Chance(4)) {
    subject = variables_[Below(variables_.size())] + " = " + subject;
  }
  ++loops_;
  std::string out = Action("range " + subject) + Items(depth - 1);
  --loops_;
  if (Chance(2)) out += Action("else") + Items(depth - 1);
  variables_.resize(visible);
  return out + Action("end");
}

std::string RandomTemplate::Declaration(int depth) {
  if (!variables_.empty() && Chance(3)) {
    const std::string name = variables_[Below(variables_.size())];
    return name + " = " + Pipeline(depth);
  }
  const std::string name(Pick({"$x", "$y", "$z"}));
  std::string out = name + " := " + Pipeline(depth);
  variables_.push_back(name);
  return out;
}

std::string RandomTemplate::Pipeline(int depth) {
  std::string out = Command(depth);
  if (calm_) {
    const std::string_view suffix =
        Pick({"", "", "", " | print", "|printf \"%v\"", " | html", " |js", " | urlquery", " | not",
              "| printf \"%5v|%q\" 1", " | println", " | or 0", " | and 1"});
    return out.append(suffix);
  }
  while (depth > 0 && Chance(4)) {
    out += std::string(Pick({" | ", "|", " |"})) +
           std::string(Pick({"print", "printf \"%v\"", "len", "html", "js", "urlquery", "not",
                             "printf \"%q %d\" 1", "println", "or 0", "and 1", "eq 1", "shellquote",
                             "yamlquote", "lt 1", "slice \"abcdef\" 1", "call", "$"}));
  }
  return out;
}

std::string RandomTemplate::Command(int depth) {
  return depth > 0 && Chance(2) ? Call(depth) : Operand(depth);
}

// Calls that hardly ever fail.
std::string RandomTemplate::CalmCall(int depth) {
  const std::string a = Operand(depth - 1);
  switch (Below(8)) {
    case 0: return fmt::format("{} {} {}", Pick({"and", "or"}), a, Operand(depth - 1));
    case 1: return "not " + a;
    case 2:
      return fmt::format("{} {} {}", Pick({"eq", "ne", "lt", "le", "gt", "ge"}), StringLiteral(),
                         StringLiteral());
    case 3:
      return fmt::format("{} {} {}", Pick({"eq", "ne", "lt", "le", "gt", "ge"}), Below(3),
                         Below(3));
    case 4:
      return std::string(
          Pick({"len \"abé\"", "index \"abc\" 1", "slice \"hello\" 1 3", "len `a`"}));
    case 5: return fmt::format("{} {}", Pick({"html", "js", "urlquery", "print", "println"}), a);
    case 6: return fmt::format("print {} {} {}", a, Operand(depth - 1), Operand(depth - 1));
    default: return Printf(depth);
  }
}

std::string RandomTemplate::Call(int depth) {
  if (calm_) return CalmCall(depth);
  const auto operands = [&](std::size_t count) {
    std::string out;
    for (; count > 0; --count) out += " " + Operand(depth - 1);
    return out;
  };
  switch (Below(9)) {
    case 0: return std::string(Pick({"and", "or"})) + operands(1 + Below(3));
    case 1: return "not" + operands(1);
    case 2: return std::string(Pick({"eq", "ne", "lt", "le", "gt", "ge"})) + operands(2);
    case 3: return "eq" + operands(1 + Below(4));
    case 4: {
      const std::string_view subject =
          defining_ ? Pick({"\"abé\"", "nil", "1"})
                    : Pick({"$.Map", "$.List", "$.Map.c", "$.Vars", "\"abé\"", "$.Map.a", "nil"});
      return fmt::format(
          "index {} {}", subject,
          Pick({"\"a\"", "\"b\" \"a\"", "0", "1", "2", "-1", "nil", "1 \"c\"", "", "\"c\" 0"}));
    }
    case 5:
      return fmt::format("slice {} {}", Operand(depth - 1),
                         Pick({"", "0", "1", "0 1", "1 2 2", "9"}));
    case 6:
      return std::string(
                 Pick({"len", "html", "js", "urlquery", "shellquote", "yamlquote", "call"})) +
             operands(1);
    case 7: return std::string(Pick({"print", "println", "html", "js"})) + operands(Below(4));
    default: return Printf(depth);
  }
}

std::string RandomTemplate::Printf(int depth) {
  std::string out = "printf \"" + Format() + "\"";
  for (std::size_t count = Below(4); count > 0; --count) out += " " + Operand(depth - 1);
  return out;
}

std::string RandomTemplate::Format() {
  std::string out;
  for (std::size_t left = 1 + Below(3); left > 0; --left) {
    out += "%";
    while (Chance(3)) out += Pick({"+", "-", "#", "0", " "});
    if (Chance(6)) out += Pick({"[1]", "[2]", "[3]", "[x]", "[", "[0]"});
    if (Chance(3)) out += Pick({"1", "5", "12", "*", "100000000"});
    if (Chance(3)) out += Pick({".", ".0", ".2", ".10", ".*", ".[1]*", ".25"});
    if (Chance(8)) out += Pick({"[1]", "[2]"});
    out += Pick({"v", "v", "d", "s", "q", "x", "X", "T", "t", "b", "o", "O", "c", "U",
                 "e", "E", "f", "F", "g", "G", "%", "z", "w", "!", "é", " ", ""});
    if (Chance(3)) out += Pick({"|", " é ", "\\n"});
  }
  return out;
}

// A path from the root, which templates that are called do not know.
std::string RandomTemplate::Path() {
  if (defining_) return std::string(Pick({".", "$", "1", "\"x\"", "true"}));
  if (!calm_ && Chance(4)) {
    return std::string(
        Pick({"$.Map.a.b", "$.Map.c.a.b", "$.Vars.ROLE.X", "$.Nope", "$.Instance.Nope"}));
  }
  return std::string(Pick({"$.Instance", "$.Instance.ID", "$.Cluster.CACert", "$.Vars.ROLE",
                           "$.Vars.NONE", "$.Vars", "$.Nonce", "$.Count", "$.Ratio", "$.Flag",
                           "$.List", "$.Map", "$.Map.a", "$.Map.b", "$.Map.c"}));
}

std::string RandomTemplate::Operand(int depth) {
  switch (Below(depth > 0 ? 14 : 10)) {
    case 0: return NumberLiteral();
    case 1:
    case 2: return StringLiteral();
    case 3:
      return std::string(calm_ ? Pick({"true", "false", "0"})
                               : Pick({"true", "false", "nil", "1", "0", "\"\""}));
    case 4: return calm_ ? "." : std::string(Pick({".", "$", ".a"}));
    case 5:
      if (!variables_.empty()) {
        return variables_[Below(variables_.size())] + (!calm_ && Chance(8) ? ".a" : "");
      }
      return Path();
    case 10: return "(" + Pipeline(depth - 1) + ")" + (!calm_ && Chance(6) ? ".a" : "");
    case 11: return "(" + Call(depth) + ")";
    case 12: return Chance(4) ? "(" + Declaration(depth - 1) + ")" : Path();
    default: return Path();
  }
}

std::string RandomTemplate::StringLiteral() {
  if (Chance(4)) return "`" + std::string(Pick({"raw", "a\nb", "\\n", "\xFF", ""})) + "`";
  std::string out = "\"";
  for (std::size_t left = Below(4); left > 0; --left) {
    out += Pick({"a", "b", "é", "\\n", "\\t", "\\\"", "\\\\", "\\x41", "\\xff", "\\u00e9", "\\101",
                 "\\U0001F600", "\\u200b", "'", "%d", "<", "\\a", "😀", "\\x00"});
  }
  return out + "\"";
}

std::string RandomTemplate::NumberLiteral() {
  if (calm_ && Chance(2)) return fmt::format("{}", Below(100));
  if (Chance(3)) return fmt::format("{}", static_cast<std::int64_t>(prng_.Next()) >> Below(63));
  if (Chance(4)) return fmt::format("{}.{}e{}", Below(100), Below(1000), prng_.Between(-30, 30));
  return std::string(Pick({"0",
                           "1",
                           "-1",
                           "42",
                           "0x1f",
                           "-0x1e",
                           "0o17",
                           "017",
                           "0b101",
                           "1_000",
                           "1.5",
                           "1e3",
                           ".5",
                           "5.",
                           "0x1p-2",
                           "0x1.8p3",
                           "1e-400",
                           "-0.0",
                           "1e308",
                           "'a'",
                           "'\\n'",
                           "'é'",
                           "'\\x80'",
                           "9223372036854775807",
                           calm_ ? "8" : "9223372036854775808",
                           "0X_1F",
                           "+7",
                           "0x1.fffffffffffff8p0",
                           "100000.0",
                           "1234567.0",
                           "2.5",
                           "0.000001",
                           "0.0000001"}));
}

}  // namespace nstance::test

#include "base/metrics_page.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace nstance::metrics {
namespace {

std::string_view KindWord(Kind kind) {
  switch (kind) {
    case Kind::kCounter: return "counter";
    case Kind::kGauge: return "gauge";
    case Kind::kHistogram: break;
  }
  return "histogram";
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void AppendEscapedValue(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

// `{a="1",le="5"}`, or nothing. `bound` is the value of `le`; empty: none.
std::string Labels(const FamilySnapshot& family, const Series& series, const std::string& bound) {
  std::string out;
  for (std::size_t i = 0; i < family.labels.size() && i < series.labels.size(); ++i) {
    out += out.empty() ? "{" : ",";
    out += family.labels[i];
    out += "=\"";
    AppendEscapedValue(out, series.labels[i]);
    out += '"';
  }
  if (!bound.empty()) out += fmt::format("{}le=\"{}\"", out.empty() ? "{" : ",", bound);
  if (!out.empty()) out += '}';
  return out;
}

void AppendHistogram(std::string& out, const std::string& name, const FamilySnapshot& family,
                     const Series& series) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < series.buckets.size(); ++i) {
    total += series.buckets[i];
    const std::string bound = i < family.bounds.size() ? Number(family.bounds[i]) : "+Inf";
    out += fmt::format("{}_bucket{} {}\n", name, Labels(family, series, bound), total);
  }
  const std::string labels = Labels(family, series, {});
  out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, labels, Number(series.sum), name, labels,
                     total);
}

}  // namespace

std::string WritePage(const Snapshot& snapshot) {
  std::string out;
  for (const auto& [short_name, family] : snapshot) {
    const std::string name = "nstance_" + short_name;
    std::string help;
    for (const char c : family.help) help += c == '\n' ? ' ' : c;
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, KindWord(family.kind));
    for (const Series& series : family.series) {
      if (family.kind == Kind::kHistogram) {
        AppendHistogram(out, name, family, series);
      } else {
        out += fmt::format("{}{} {}\n", name, Labels(family, series, {}), Number(series.value));
      }
    }
  }
  return out;
}

}  // namespace nstance::metrics

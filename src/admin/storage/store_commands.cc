#include "admin/storage/store_commands.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/table.h"
#include "base/json.h"
#include "storage/store_probe.h"

namespace nstance::admin {
namespace {

// --- probe ---------------------------------------------------------------------------------------

StoreProbeReport Probe(const StoreProbeOrder& command, const StorageDeps& deps) {
  StoreSession store(deps);
  std::unique_ptr<StoreProbeRunner> runner;
  const Result<StoreProbeReport> report = Await<StoreProbeReport>(deps.turns, [&](auto done) {
    runner = std::make_unique<StoreProbeRunner>(
        StoreProbeRunner::Deps{.loop = deps.loop,
                               .endpoints = {deps.store},
                               .random = deps.random,
                               .jitter = store.jitter()},
        command.shard.text(),
        [done = std::move(done)](StoreProbeReport found) mutable { done(std::move(found)); });
    runner->Start();
    return Pending();
  });
  return *report;
}

std::string_view WordOf(ProbeStatus status) {
  switch (status) {
    case ProbeStatus::kPassed:
    case ProbeStatus::kReported: return "ok";
    case ProbeStatus::kFailed: return "FAIL";
    case ProbeStatus::kWarning: return "warning";
    case ProbeStatus::kNotRun: return "not run";
  }
  return "";
}

std::string LastLine(const StoreProbeReport& report) {
  switch (report.verdict) {
    case ProbeVerdict::kAccepted: return "store is safe for nstance";
    case ProbeVerdict::kRefused: return "store is NOT safe: " + report.message;
    case ProbeVerdict::kUnreachable: return report.message;
  }
  return "";
}

std::string ProbeText(const StoreProbeReport& report) {
  Table table({{"RULE", Align::kRight}, {"RESULT"}, {"MS", Align::kRight}, {"WHAT"}, {"DETAIL"}});
  for (const ProbeCheck& check : report.checks) {
    table.Add({fmt::format("{}", check.number), std::string(WordOf(check.status)),
               fmt::format("{}", check.took.milliseconds()), std::string(check.name),
               check.detail});
  }
  return table.Text(Paint::kPlain) + LastLine(report) + "\n";
}

std::string ProbeJson(const StoreProbeReport& report) {
  json::Array checks;
  for (const ProbeCheck& check : report.checks) {
    json::Value one = json::Value::Map({});
    one.Set("rule", json::Value::Integer(check.number));
    one.Set("what", json::Value::String(std::string(check.name)));
    one.Set("result", json::Value::String(std::string(ProbeStatusName(check.status))));
    one.Set("milliseconds", json::Value::Integer(check.took.milliseconds()));
    one.Set("detail", json::Value::String(check.detail));
    checks.push_back(std::move(one));
  }
  json::Value out = json::Value::Map({});
  out.Set("safe", json::Value::Bool(report.verdict == ProbeVerdict::kAccepted));
  out.Set("message", json::Value::String(LastLine(report)));
  out.Set("checks", json::Value::List(std::move(checks)));
  out.Set("conditional_delete", json::Value::Bool(report.conditional_delete));
  out.Set("listing_lag_ms", json::Value::Integer(report.listing_lag.milliseconds()));
  if (report.clock_offset) {
    out.Set("clock_offset_ms", json::Value::Integer(report.clock_offset->milliseconds()));
  }
  return json::Write(out, {.indent = 2}) + "\n";
}

// --- cost ----------------------------------------------------------------------------------------

// Of idle servers (load.md LB5, LB6), per hour. The tests of the server hold it to these.
constexpr std::int64_t kHoursPerMonth = 730;
constexpr std::int64_t kLeaderReads = 360 + 60 + 10;  // Deny list, configuration, others.
constexpr std::int64_t kStandbyReads = 420;
constexpr std::int64_t kLeaseWritesMore = 2;

struct CostRow {
  std::string who;
  std::int64_t puts = 0;  // Per month.
  std::int64_t gets = 0;
};

std::vector<CostRow> CostRows(const StoreCost& cost) {
  const std::int64_t renew = cost.renew.milliseconds();
  const std::int64_t renewals = (3'600'000 + renew - 1) / renew;
  const std::int64_t standbys = cost.shards * cost.standbys;
  const std::int64_t servers = cost.shards + standbys;
  return {{.who = fmt::format("{} leading", cost.shards),
           .puts = cost.shards * (renewals + kLeaseWritesMore) * kHoursPerMonth,
           .gets = cost.shards * kLeaderReads * kHoursPerMonth},
          {.who = fmt::format("{} standing by", standbys),
           .gets = standbys * (renewals + kStandbyReads) * kHoursPerMonth},
          {.who = "cluster lease",
           .puts = (renewals + kLeaseWritesMore) * kHoursPerMonth,
           .gets = (servers - 1) * renewals * kHoursPerMonth}};
}

std::string CostJson(const StoreCost& cost, const std::vector<CostRow>& rows) {
  json::Value out = json::Value::Map({});
  out.Set("shards", json::Value::Integer(cost.shards));
  out.Set("standbys", json::Value::Integer(cost.standbys));
  out.Set("renew", json::Value::String(FormatDuration(cost.renew)));
  out.Set("hours_per_month", json::Value::Integer(kHoursPerMonth));
  json::Array parts;
  for (const CostRow& row : rows) {
    json::Value part = json::Value::Map({});
    part.Set("who", json::Value::String(row.who));
    part.Set("put", json::Value::Integer(row.puts));
    part.Set("get", json::Value::Integer(row.gets));
    parts.push_back(std::move(part));
  }
  const json::Value total = std::move(parts.back());
  parts.pop_back();
  out.Set("put", *total.Find("put"));
  out.Set("get", *total.Find("get"));
  out.Set("parts", json::Value::List(std::move(parts)));
  return json::Write(out, {.indent = 2}) + "\n";
}

}  // namespace

Ending Run(const StoreProbeOrder& command, const CommonFlags& common, const StorageDeps& deps) {
  const StoreProbeReport report = Probe(command, deps);
  if (report.verdict == ProbeVerdict::kUnreachable) {
    return Failed(report.message, "UNAVAILABLE", common.output);
  }
  Ending ending{.exit_code = report.verdict == ProbeVerdict::kAccepted ? kExitDone : kExitError};
  ending.out = common.output == Output::kJson ? ProbeJson(report) : ProbeText(report);
  return ending;
}

Ending Run(const StoreCost& command, const CommonFlags& common) {
  std::vector<CostRow> rows = CostRows(command);
  CostRow total{.who = "total"};
  for (const CostRow& row : rows) {
    total.puts += row.puts;
    total.gets += row.gets;
  }
  rows.push_back(total);
  if (common.output == Output::kJson) return {.out = CostJson(command, rows)};
  Table table({{"SERVERS"}, {"PUT/MONTH", Align::kRight}, {"GET/MONTH", Align::kRight}});
  for (const CostRow& row : rows) {
    table.Add({row.who, fmt::format("{}", row.puts), fmt::format("{}", row.gets)});
  }
  Ending ending{.out = table.Text(Paint::kPlain)};
  if (!common.quiet) {
    ending.err = fmt::format(
        "At most, of servers without work, in {} hours; the lease is renewed every {}. Each "
        "instance costs 5 PUT and 1 DELETE in its life, and 4 PUT a day for its certificates.\n",
        kHoursPerMonth, FormatDuration(command.renew));
  }
  return ending;
}

}  // namespace nstance::admin

// JSON: our parser and canonical writer beside nlohmann-json, on a document shaped like a
// configuration. Ours also keeps the position of every value and finds duplicate keys.
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace nstance {
namespace {

std::string Document() {
  std::string text = R"({"server":{"cluster_id":"example","shard":"a"},"groups":{)";
  for (int i = 0; i < 200; ++i) {
    if (i > 0) text += ',';
    text +=
        R"("group-)" + std::to_string(i) + R"(":{"template":"worker","size":)" +
        std::to_string(i * 37 % 1000) +
        R"(,"vars":{"ROLE":"worker","ZONE":"dc1-zone-a","RATIO":0.125},"args":["a","b\n",true,null]})";
  }
  return text + "}}";
}

void ParseOurs(benchmark::State& state) {
  const std::string text = Document();
  for (auto _ : state) {
    auto value = json::Parse(text);
    if (!value) std::abort();
    benchmark::DoNotOptimize(value);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void ParseNlohmann(benchmark::State& state) {
  const std::string text = Document();
  for (auto _ : state) {
    auto value = nlohmann::json::parse(text);
    benchmark::DoNotOptimize(value);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void WriteOurs(benchmark::State& state) {
  const json::Value value = *json::Parse(Document());
  for (auto _ : state) benchmark::DoNotOptimize(json::WriteCanonical(value));
}

void WriteNlohmann(benchmark::State& state) {
  const nlohmann::json value = nlohmann::json::parse(Document());
  for (auto _ : state) benchmark::DoNotOptimize(value.dump());
}

BENCHMARK(ParseOurs)->Name("json_parse/ours");
BENCHMARK(ParseNlohmann)->Name("json_parse/nlohmann");
BENCHMARK(WriteOurs)->Name("json_write/ours");
BENCHMARK(WriteNlohmann)->Name("json_write/nlohmann");

}  // namespace
}  // namespace nstance

BENCHMARK_MAIN();

// Templates: rendering a parsed user-data template of about 4 KiB, ours beside Go's text/template.
//
// The other side runs in the Go peer of the tests, which renders the same template with the same
// data, checks that its output is ours and tells the nanoseconds that it took; that is the time
// reported here. Without Go only ours is measured.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "base/text.h"
#include "core/template/template.h"
#include "test/core/template/sample_data.h"
#include "test/support/peers.h"
#include "test/support/process.h"

namespace nstance {
namespace {

std::string UserData() {
  std::string text =
      "#!/bin/bash\n# {{/* made for each instance */}}\nset -euo pipefail\n"
      "{{- define \"unit\" }}\n[Unit]\nDescription={{.}}\nAfter=network-online.target\n{{ end }}\n"
      "cat > /etc/nstance/ca.crt <<'EOF'\n{{.Cluster.CACert}}EOF\n";
  for (int i = 0; i < 12; ++i) {
    text += "\n# Part " + std::to_string(i) +
            ": what this kind of instance needs before its agent starts.\n"
            "export NSTANCE_INSTANCE_ID={{ .Instance.ID | shellquote }}\n"
            "export NSTANCE_CLUSTER={{ .Cluster.ID }} KIND={{ .Instance.Kind }} ARCH={{ "
            ".Instance.Arch }}\n"
            "{{- if eq .Instance.Kind \"worker\" }}\n"
            "install-worker --role {{ .Vars.ROLE }} --nonce {{ .Nonce }}\n"
            "{{- else if .Flag }}\ninstall-server\n{{- end }}\n"
            "{{ range $k, $v := .Vars }}echo {{ $k }}={{ printf \"%q\" $v }} >> "
            "/etc/nstance/env\n{{ end }}";
  }
  return text + "{{ template \"unit\" .Instance.ID }}\n";
}

void RenderOurs(benchmark::State& state) {
  const Result<tmpl::Template> parsed = tmpl::Template::Parse("t", UserData());
  if (!parsed) std::abort();
  for (auto _ : state) {
    Result<std::string> text = parsed->Render(test::Sample());
    if (!text) std::abort();
    benchmark::DoNotOptimize(text);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(UserData().size()));
}

void ParseOurs(benchmark::State& state) {
  const std::string source = UserData();
  for (auto _ : state) {
    Result<tmpl::Template> parsed = tmpl::Template::Parse("t", source);
    if (!parsed) std::abort();
    benchmark::DoNotOptimize(parsed);
  }
}

void RenderGo(benchmark::State& state) {
  const Result<std::string> peer = test::BuildGoPeer("go_template");
  if (!peer) {
    state.SkipWithError(peer.error().message.c_str());
    return;
  }
  const std::string source = UserData();
  const std::string output =
      tmpl::Template::Parse("t", source).value().Render(test::Sample()).value();
  const std::string question = Base64Encode(AsBytes(source)) + " " +
                               Base64Encode(AsBytes(test::SampleJson())) + " " +
                               Base64Encode(AsBytes(output)) + "\n";
  for (auto _ : state) {
    const Result<test::ProcessOutput> answer =
        test::RunProcess({.argv = {*peer, "bench"}, .input = question});
    std::uint64_t nanoseconds = 0;
    if (!answer ||
        std::from_chars(answer->out.data(), answer->out.data() + answer->out.size(), nanoseconds)
                .ec != std::errc()) {
      state.SkipWithError(answer ? answer->out.c_str() : answer.error().message.c_str());
      return;
    }
    state.SetIterationTime(static_cast<double>(nanoseconds) / 1e9);
  }
}

BENCHMARK(RenderOurs)->Name("template_render/ours")->UseRealTime();
BENCHMARK(RenderGo)->Name("template_render/go")->UseManualTime()->Iterations(1);
BENCHMARK(ParseOurs)->Name("template_parse/ours");

}  // namespace
}  // namespace nstance

BENCHMARK_MAIN();

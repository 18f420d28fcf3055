// Overloaded: one visitor from several lambdas, for std::visit over commands and events.
//
//   std::visit(Overloaded{[&](const Put& put) { ... }, [&](const Wait& wait) { ... }}, command);
#pragma once

namespace nstance {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace nstance

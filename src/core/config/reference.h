// The schema as a document: Markdown tables of every key, its type, default and meaning.
//
// docs/configuration.md holds this text between two marks; a test fails when they differ, and says
// how to renew it.
#pragma once

#include <string>

namespace nstance::config {

[[nodiscard]] std::string RenderReference();

}  // namespace nstance::config

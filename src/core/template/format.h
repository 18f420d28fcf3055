// Printing of values as Go's package fmt does it: Print, Println and Printf with all its verbs,
// flags and the ways in which it shows mistakes, such as %!d(string=x).
//
// Differs from Go in one verb: %p, which shows addresses there, is a wrong verb for every value.
// A width or precision that is an argument goes up to 1,000,000; a larger one is %!(BADWIDTH) or
// %!(BADPREC). One that is written has at most eight digits; more end the format with %!(NOVERB).
// So it is in Go. Output beyond the limit of the sink is not made.
#pragma once

#include <span>
#include <string_view>

#include "core/template/sink.h"
#include "core/template/view.h"

namespace nstance::tmpl {

// One value as %v.
void PrintOne(Sink& sink, const View& value);
// A blank between two values when neither is a string.
void Print(Sink& sink, std::span<const View> values);
// Blanks between all, and a newline.
void PrintLine(Sink& sink, std::span<const View> values);
void PrintFormat(Sink& sink, std::string_view format, std::span<const View> values);

}  // namespace nstance::tmpl

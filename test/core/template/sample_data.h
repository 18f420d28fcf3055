// The data that template tests render with: a record of the shape that the Go peer knows, read from
// JSON so that both sides have the same.
//
//   {"Instance":{"ID","Kind","Arch","Type"},"Cluster":{"ID","CACert"},"Vars":{name:base64},
//    "Nonce":base64,"Count":int,"Ratio":float,"Flag":bool,"List":[...],"Map":{...}}
#pragma once

#include <string>
#include <string_view>

#include "core/template/value.h"

namespace nstance::test {

// REQUIRES: JSON of that form.
[[nodiscard]] tmpl::Value SampleFromJson(std::string_view text);

// What the cases that are written by hand use.
[[nodiscard]] const std::string& SampleJson();
[[nodiscard]] const tmpl::Value& Sample();

}  // namespace nstance::test

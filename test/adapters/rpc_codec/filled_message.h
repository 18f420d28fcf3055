// Messages with every field set, by protobuf's own reflection: a field that a conversion forgets
// shows up without anybody having to think of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/prng.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace nstance::test {

// Of the type with that full name. REQUIRES: there is one.
[[nodiscard]] std::unique_ptr<google::protobuf::Message> NewMessage(std::string_view full_name);

// Sets every field to a value that differs from its default, and from that of its neighbours; two
// elements in lists, three in maps; of a oneof the member that chance picks. Times and lengths of
// time are valid.
void Fill(google::protobuf::Message& message, Prng& prng);

// Map entries by key.
[[nodiscard]] std::string BytesOf(const google::protobuf::Message& message);

}  // namespace nstance::test

// Memory for HTTP/2 sessions, as nghttp2 asks for it.
//
// Every nghttp2 session holds one frame buffer of 16 KiB for as long as it lives, of which small
// frames touch the first page alone. From malloc() that buffer would lie on pages that something
// else has written to before, all of them resident. So large blocks come from the kernel, whose
// pages cost nothing until they are touched: a quarter of an idle connection's memory.
//
// Any thread may use it. A connection's worth of blocks is two system calls.
#pragma once

#include <cstddef>

#include <nghttp2/nghttp2.h>

namespace nstance::grpc {

// From this size on a block is the kernel's.
inline constexpr std::size_t kLargeBlockBytes = std::size_t{16} * 1024;

// Static storage; nghttp2 takes it as not constant.
[[nodiscard]] nghttp2_mem* H2Memory();

}  // namespace nstance::grpc

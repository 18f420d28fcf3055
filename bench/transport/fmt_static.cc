// What the static client needs of fmt: Debian ships fmt as a shared library and as headers only.
// Explicit instantiations give other files the symbols that they expect of the library.
#include <fmt/format-inl.h>

// Sink: a string that is appended to up to a limit. What would go beyond is dropped and remembered.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nstance::tmpl {

class Sink final {
 public:
  // `out` must outlive the sink; what it holds already counts. REQUIRES: that is within the limit.
  Sink(std::string& out, std::size_t limit) : out_(out), limit_(limit) {}

  void Append(std::string_view text) {
    if (Fits(text.size())) out_.append(text);
  }
  void Append(char c) {
    if (Fits(1)) out_ += c;
  }
  void Fill(std::size_t count, char c) {
    if (Fits(count)) out_.append(count, c);
  }

  // Something did not fit: what is there is worth nothing.
  [[nodiscard]] bool full() const { return full_; }
  [[nodiscard]] std::size_t size() const { return out_.size(); }

 private:
  bool Fits(std::size_t more) {
    if (!full_ && more <= limit_ - out_.size()) [[likely]]
      return true;
    full_ = true;
    return false;
  }

  std::string& out_;
  std::size_t limit_;
  bool full_ = false;
};

}  // namespace nstance::tmpl

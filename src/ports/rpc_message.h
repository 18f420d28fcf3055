// RpcMessage: one message of a call as a value of any type, shared and never changed.
//
// The transport does not know what it carries: at this side of the port a message is a plain struct
// of ports/api (in the transport's own tests, whatever they like), at the other side it is bytes,
// and the method's codec (ports/rpc_codec.h) turns one into the other. Copies share the value.
//
//   call->Send(RpcMessage::Of(api::GroupEvent{.type = ..., .group = ...}));
//   const auto* request = message.As<api::UpsertGroupRequest>();   // Null: another type.
//
// Threads: a message may be made on one thread and handed to another, but is looked at by one
// thread at a time, copies included: the encoded form is kept beside the value.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace nstance {

class RpcMessage final {
 public:
  template <class T>
  [[nodiscard]] static RpcMessage Of(T value) {
    auto box = std::make_shared<Box<T>>();
    box->value = std::move(value);
    box->type = &kTypeMark<T>;
    return RpcMessage(std::move(box));
  }

  // The value, or null when it is of another type.
  template <class T>
  [[nodiscard]] const T* As() const {
    if (box_ == nullptr || box_->type != &kTypeMark<T>) return nullptr;
    return &static_cast<const Box<T>&>(*box_).value;
  }

  // The value to keep, without a copy when nobody else holds the message.
  // REQUIRES: As<T>() is not null.
  template <class T>
  [[nodiscard]] T Take() && {
    auto box = std::exchange(box_, nullptr);
    auto& value = static_cast<Box<T>&>(*box).value;
    if (box.use_count() == 1) return std::move(value);
    return value;
  }

  // For codecs and transports: about how many bytes the value takes. 0: nobody said.
  [[nodiscard]] std::size_t weight() const { return box_->weight; }
  void SetWeight(std::size_t bytes) { box_->weight = bytes; }

  using Encoded = std::shared_ptr<const std::string>;

  // For codecs: the bytes of this value, once they were made; null before. A message that goes to
  // many watchers is encoded once.
  [[nodiscard]] const Encoded& encoded() const { return box_->encoded; }
  void KeepEncoded(Encoded bytes) const { box_->encoded = std::move(bytes); }

 private:
  struct AnyBox {
    const void* type = nullptr;
    std::size_t weight = 0;
    Encoded encoded;
  };
  template <class T>
  struct Box : AnyBox {
    T value = {};
  };
  // One object per type: its address names the type.
  template <class T>
  static constexpr char kTypeMark = 0;

  explicit RpcMessage(std::shared_ptr<AnyBox> box) : box_(std::move(box)) {}

  std::shared_ptr<AnyBox> box_;
};

}  // namespace nstance

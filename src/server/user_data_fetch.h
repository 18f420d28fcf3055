// UserDataFetch: fetches the user data of one creation from its URL. It runs the machine of
// core/instance_config/user_data_fetch.h, whose rules hold here.
//
//   UserDataFetch fetch({loop, http, cache}, userdata, [](Result<std::string> body) { ... });
//   fetch.Start();
//
// The body is as it came: DecodeUserData() is the next step. Messages name the host, never the path
// of the URL, which may hold a token.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "core/config/config.h"
#include "core/instance_config/user_data_cache.h"
#include "core/instance_config/user_data_fetch.h"
#include "ports/http.h"
#include "ports/loop.h"
#include "ports/pending.h"

namespace nstance {

class UserDataFetch final {
 public:
  struct Deps {
    Loop& loop;
    HttpClient& http;
    UserDataCache& cache;  // Shared by all fetches of the loop.
  };
  using Done = std::move_only_function<void(Result<std::string> body)>;

  // `done` is called once, on the loop, never from inside Start(), and may destroy this object.
  // Destroying it earlier means that `done` is not called. REQUIRES: userdata.effective_source() is
  // kUrl.
  UserDataFetch(Deps deps, config::UserData userdata, Done done);
  UserDataFetch(const UserDataFetch&) = delete;
  UserDataFetch& operator=(const UserDataFetch&) = delete;

  void Start() {
    pending_ = deps_.loop.CallAfter({}, [this] { Do(machine_.Start()); });
  }

 private:
  void Do(UserDataFetchMachine::Command command);

  Deps deps_;
  std::string url_;
  UserDataFetchMachine machine_;
  Done done_;
  Pending pending_;
};

}  // namespace nstance

// Agent: nstance-agent from start to stop, over ports (agent.md 3 to 5, 8, 10, 11, 13).
//
//   start   roots, key pair, certificate or nonce; a problem ends the process with its exit code
//   join    Registrar, until there is a certificate or the nonce has expired
//   serve   Link, Reporter and Renewer, until Stop(); no server can end it
//
// The key and file streams are open. Of key requests only `rebind` is answered; keys are not made
// and files are not written: each such message is logged, and the reports go on telling the server
// what is there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/identity_store.h"
#include "agent/link.h"
#include "agent/registrar.h"
#include "agent/renewer.h"
#include "agent/reporter.h"
#include "agent/settings.h"
#include "base/log.h"
#include "base/prng.h"
#include "ports/agent_files.h"
#include "ports/host_facts.h"
#include "ports/http_server.h"
#include "ports/loop.h"
#include "ports/rpc.h"
#include "ports/secure_random.h"

namespace nstance::agent {

inline constexpr int kExitStopped = 0;
inline constexpr int kExitUnusable = 1;  // Environment or identity files.
inline constexpr int kExitBadCommandLine = 2;
inline constexpr int kExitCannotJoin = 3;  // Neither a good nonce nor a certificate.

// Registration, handshakes and first reports are over by then.
inline constexpr Duration kSettledAfter = Duration::Seconds(5);

class Agent final {
 public:
  struct Deps {
    Loop& loop;
    RpcDialer& dialer;
    SecureRandom& random;
    HostFacts& host;
    AgentFiles& identity;
    AgentFiles& received;
    log::Logger log;
    // The health stream has been open for kSettledAfter: what only a start needs may go. May be
    // null.
    std::function<void()> settled = nullptr;
  };
  // The process is to end with this code. Once, in a turn of its own; may destroy the agent.
  using Exit = std::move_only_function<void(int code)>;

  Agent(const Deps& deps, Settings settings, Exit exit);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  ~Agent();

  // On the loop, or before it runs.
  void Start();
  // Exit code 0 within 2 s.
  void Stop();

  // /healthz and /readyz. Lives as long as the agent.
  [[nodiscard]] HttpAnswer Page(const HttpQuestion& question) const;
  // What stands in the way of being ready, one line each; empty: ready.
  [[nodiscard]] std::string NotReady() const;

 private:
  struct Present {  // What is shown to servers.
    PrivateKeyPtr key;
    crypto::Certificate certificate;
  };

  void Begin();
  void Join(const IdentityStore::Loaded& loaded, const std::string& no_certificate);
  void Joined(const PrivateKeyPtr& key, Result<OwnCertificate> own);
  void Serve(const PrivateKeyPtr& key, const OwnCertificate& own);
  void MakeParts(const OwnCertificate& own);
  void EndWith(int code);
  void Settle();
  void RefreshRoots();
  [[nodiscard]] RpcTls Material();
  [[nodiscard]] HostNames Names() const;
  void OnKeyRequest(const api::KeyGenerationRequest& request);
  void OnFile(const api::FileTransfer& file);

  Deps deps_;
  Settings settings_;
  Exit exit_;
  Prng jitter_;
  IdentityStore store_;
  Timestamp started_at_;
  std::vector<crypto::Certificate> roots_;
  std::optional<Present> present_;
  std::unique_ptr<Registrar> registrar_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Renewer> renewer_;
  bool told_keys_ = false;
  bool told_files_ = false;
  bool stopping_ = false;
  Pending settling_;
  Pending end_;
};

}  // namespace nstance::agent

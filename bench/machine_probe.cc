// machine_probe: what this machine can do at best, of the things that bound the figures of the
// benchmarks. bench/run prints it with every report; one JSON line, no flags.
//
// Each thing is done with the libraries alone, on one thread, for about a quarter of a second. Of a
// TLS handshake both ends are done there: a server has to do only one of them.
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <sqlite3.h>

#include "adapters/real_loop/real_loop.h"
#include "base/check.h"
#include "bench/transport/materials.h"

namespace nstance::bench {
namespace {

namespace fs = std::filesystem;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;
using CipherPtr = std::unique_ptr<EVP_CIPHER_CTX, Deleter<EVP_CIPHER_CTX_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Deleter<SSL_free>>;
using DatabasePtr = std::unique_ptr<sqlite3, Deleter<sqlite3_close>>;
using StatementPtr = std::unique_ptr<sqlite3_stmt, Deleter<sqlite3_finalize>>;

// Units per second, when one step does so many of them.
template <class Step>
double PerSecond(double units, const Step& step) {
  constexpr std::chrono::milliseconds kLength(250);
  step();  // The first one pays for what is set up once.
  const auto begin = std::chrono::steady_clock::now();
  auto now = begin;
  double done = 0;
  while (now - begin < kLength) {
    step();
    done += units;
    now = std::chrono::steady_clock::now();
  }
  return done / std::chrono::duration<double>(now - begin).count();
}

struct Signatures {
  double made = 0;
  double verified = 0;
};

// Over 400 bytes: about what is signed of a certificate.
Signatures MeasureSignatures() {
  const KeyPtr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  CHECK(key != nullptr);
  const std::array<unsigned char, 400> message{};
  std::array<unsigned char, 64> signature{};
  Signatures rates;
  rates.made = PerSecond(1, [&] {
    const DigestPtr digest(EVP_MD_CTX_new());
    std::size_t size = signature.size();
    CHECK(EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1);
    CHECK(EVP_DigestSign(digest.get(), signature.data(), &size, message.data(), message.size()) ==
          1);
  });
  rates.verified = PerSecond(1, [&] {
    const DigestPtr digest(EVP_MD_CTX_new());
    CHECK(EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1);
    CHECK(EVP_DigestVerify(digest.get(), signature.data(), signature.size(), message.data(),
                           message.size()) == 1);
  });
  return rates;
}

double MeasureAesGcm() {
  const CipherPtr cipher(EVP_CIPHER_CTX_new());
  const std::array<unsigned char, 32> key{};
  const std::array<unsigned char, 12> nonce{};
  const std::vector<unsigned char> plain(16 * 1024);
  std::vector<unsigned char> sealed(plain.size() + 16);
  return PerSecond(static_cast<double>(plain.size()), [&] {
    int size = 0;
    CHECK(EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data()) ==
          1);
    CHECK(EVP_EncryptUpdate(cipher.get(), sealed.data(), &size, plain.data(),
                            static_cast<int>(plain.size())) == 1);
    CHECK(EVP_EncryptFinal_ex(cipher.get(), sealed.data() + size, &size) == 1);
  });
}

// One end of the handshakes, with `<name>.pem` and `<name>.key`.
ContextPtr MakeContext(const SSL_METHOD* method, const fs::path& folder, const std::string& name) {
  ContextPtr context(SSL_CTX_new(method));
  SSL_CTX* raw = context.get();
  CHECK(raw != nullptr && SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) == 1);
  const std::string certificate = (folder / (name + ".pem")).string();
  const std::string key = (folder / (name + ".key")).string();
  CHECK(SSL_CTX_use_certificate_file(raw, certificate.c_str(), SSL_FILETYPE_PEM) == 1);
  CHECK(SSL_CTX_use_PrivateKey_file(raw, key.c_str(), SSL_FILETYPE_PEM) == 1);
  CHECK(SSL_CTX_load_verify_locations(raw, (folder / "ca.pem").c_str(), nullptr) == 1);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  CHECK(SSL_CTX_set_num_tickets(raw, 0) == 1);
  return context;
}

void ShakeHands(SSL_CTX* client_context, SSL_CTX* server_context) {
  const SslPtr client(SSL_new(client_context));
  const SslPtr server(SSL_new(server_context));
  BIO* client_end = nullptr;
  BIO* server_end = nullptr;
  CHECK(client != nullptr && server != nullptr);
  CHECK(BIO_new_bio_pair(&client_end, 0, &server_end, 0) == 1);
  SSL_set_bio(client.get(), client_end, client_end);
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  bool done = false;
  for (int turn = 0; turn < 10 && !done; ++turn) {
    const bool client_done = SSL_do_handshake(client.get()) == 1;
    done = SSL_do_handshake(server.get()) == 1 && client_done;
  }
  CHECK(done && SSL_version(server.get()) == TLS1_3_VERSION);
}

double MeasureHandshakes(const fs::path& folder) {
  WriteMaterials(folder, RealLoop().WallNow());
  const ContextPtr client = MakeContext(TLS_client_method(), folder, "agent");
  const ContextPtr server = MakeContext(TLS_server_method(), folder, "server");
  return PerSecond(1, [&] { ShakeHands(client.get(), server.get()); });
}

void Execute(sqlite3* database, const char* text) {
  CHECK(sqlite3_exec(database, text, nullptr, nullptr, nullptr) == SQLITE_OK, "{}: {}", text,
        sqlite3_errmsg(database));
}

// Rows of 200 bytes in batches of 500, as a cache is written behind.
double MeasureSqlite(const fs::path& folder) {
  constexpr int kBatch = 500;
  sqlite3* raw = nullptr;
  CHECK(sqlite3_open((folder / "probe.db").c_str(), &raw) == SQLITE_OK);
  const DatabasePtr database(raw);
  Execute(raw, "PRAGMA journal_mode=WAL");
  Execute(raw, "PRAGMA synchronous=NORMAL");
  Execute(raw, "CREATE TABLE rows (id INTEGER PRIMARY KEY, text BLOB)");
  sqlite3_stmt* prepared = nullptr;
  CHECK(sqlite3_prepare_v2(raw, "INSERT INTO rows (text) VALUES (?)", -1, &prepared, nullptr) ==
        SQLITE_OK);
  const StatementPtr insert(prepared);
  const std::string text(200, 'x');
  return PerSecond(kBatch, [&] {
    Execute(raw, "BEGIN");
    for (int i = 0; i < kBatch; ++i) {
      CHECK(sqlite3_bind_blob(prepared, 1, text.data(), static_cast<int>(text.size()),
                              SQLITE_STATIC) == SQLITE_OK);
      CHECK(sqlite3_step(prepared) == SQLITE_DONE);
      sqlite3_reset(prepared);
    }
    Execute(raw, "COMMIT");
  });
}

// How many descriptors a process may be allowed.
std::uint64_t DescriptorLimit() {
  rlimit limit{};
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return limit.rlim_max;
}

// How many ports one source address has for connections; 0: it is not told.
int PortLimit() {
  int first = 0;
  int last = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  return last > 0 ? last - first + 1 : 0;
}

int Main() {
  std::string name = (fs::temp_directory_path() / "nstance-probe-XXXXXX").string();
  CHECK(mkdtemp(name.data()) != nullptr, "{}", name);
  const Signatures signatures = MeasureSignatures();
  const double handshakes = MeasureHandshakes(name);
  const double bytes = MeasureAesGcm();
  const double rows = MeasureSqlite(name);
  fs::remove_all(name);
  fmt::print(
      "{{\"ed25519_signatures_per_s\":{:.0f},\"ed25519_verifications_per_s\":{:.0f},"
      "\"tls_handshakes_per_s\":{:.0f},\"aes_gcm_bytes_per_s\":{:.0f},"
      "\"sqlite_rows_per_s\":{:.0f},\"descriptors\":{},\"ports_per_address\":{}}}\n",
      signatures.made, signatures.verified, handshakes, bytes, rows, DescriptorLimit(),
      PortLimit());
  return 0;
}

}  // namespace
}  // namespace nstance::bench

int main() { return nstance::bench::Main(); }

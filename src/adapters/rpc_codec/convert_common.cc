// See convert.h. Fields in the order of their numbers.
#include <utility>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/convert_parts.h"
#include "base/overloaded.h"
#include "nstance/v1/common.pb.h"
#include "nstance/v1/registration.pb.h"

namespace nstance::rpc_codec {
void Read(const v1::RenewCertificateRequest& in, api::RenewCertificateRequest& out,
          ReadContext& /*context*/) {
  out.public_key_pem = in.public_key_pem();
}

void Write(const api::RenewCertificateRequest& in, v1::RenewCertificateRequest& out,
           WriteContext& /*context*/) {
  out.set_public_key_pem(in.public_key_pem);
}

void Read(const v1::RenewCertificateResponse& in, api::RenewCertificateResponse& out,
          ReadContext& /*context*/) {
  out.client_certificate_pem = in.client_certificate_pem();
  if (in.has_expires_at()) out.expires_at = ReadTime(in.expires_at());
}

void Write(const api::RenewCertificateResponse& in, v1::RenewCertificateResponse& out,
           WriteContext& /*context*/) {
  out.set_client_certificate_pem(in.client_certificate_pem);
  if (in.expires_at) WriteTime(*in.expires_at, *out.mutable_expires_at());
}

void Read(const v1::RegisterClientRequest& in, api::RegisterClientRequest& out,
          ReadContext& /*context*/) {
  out.registration_nonce_jwt = in.registration_nonce_jwt();
  out.public_key_pem = in.public_key_pem();
  out.private_ipv4 = in.private_ipv4();
  out.private_ipv6 = in.private_ipv6();
  out.hostname = in.hostname();
  out.proof = in.proof();
}

void Write(const api::RegisterClientRequest& in, v1::RegisterClientRequest& out,
           WriteContext& context) {
  out.set_registration_nonce_jwt(context.Clean(in.registration_nonce_jwt));
  out.set_public_key_pem(in.public_key_pem);
  out.set_private_ipv4(context.Clean(in.private_ipv4));
  out.set_private_ipv6(context.Clean(in.private_ipv6));
  out.set_hostname(context.Clean(in.hostname));
  out.set_proof(in.proof);
}

void Read(const v1::RegisterClientResponse& in, api::RegisterClientResponse& out,
          ReadContext& /*context*/) {
  out.client_certificate_pem = in.client_certificate_pem();
  if (in.has_expires_at()) out.expires_at = ReadTime(in.expires_at());
}

void Write(const api::RegisterClientResponse& in, v1::RegisterClientResponse& out,
           WriteContext& /*context*/) {
  out.set_client_certificate_pem(in.client_certificate_pem);
  if (in.expires_at) WriteTime(*in.expires_at, *out.mutable_expires_at());
}

}  // namespace nstance::rpc_codec

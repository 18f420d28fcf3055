// `nstance-admin cluster nonce` and `cluster register-operator`: how an operator gets in.
//
// A nonce is a token for somebody else, who joins with it at a server. register-operator needs no
// server: it makes the certificate here, with the cluster's own key.
//
// Nothing is lost when the process dies between two steps. The key is on disk before anything names
// it; the record is in the store before the certificate is signed; the certificate comes last. The
// same command again finds the key, finds the record, and ends with the same certificate.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/storage/store_session.h"
#include "admin/storage_command.h"

namespace nstance::admin {

[[nodiscard]] Ending Run(const ClusterNonce& command, const CommonFlags& common,
                         const StorageDeps& deps);
[[nodiscard]] Ending Run(const ClusterRegisterOperator& command, const CommonFlags& common,
                         const StorageDeps& deps);

}  // namespace nstance::admin

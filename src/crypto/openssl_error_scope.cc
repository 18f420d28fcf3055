#include "crypto/openssl_error_scope.h"

#include <openssl/err.h>

namespace nstance::crypto {

OpensslErrorScope::OpensslErrorScope() { ERR_set_mark(); }
OpensslErrorScope::~OpensslErrorScope() { ERR_pop_to_mark(); }

}  // namespace nstance::crypto

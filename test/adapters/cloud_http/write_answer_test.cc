// The normal form: every status, for writes and for reads.
#include "adapters/cloud_http/write_answer.h"

#include <gtest/gtest.h>

namespace nstance::cloud {
namespace {

TEST(WriteErrorTest, EveryStatusHasItsPlace) {
  for (int status = 100; status < 600; ++status) {
    const Error error = WriteError(status, "");
    const bool conflict = status == 304 || status == 409 || status == 412;
    const bool denied = status == 401 || status == 403;
    const bool surely_not = status >= 300 && status < 500 && status != 408;
    EXPECT_EQ(error.code == Code::kAborted, conflict) << status;
    EXPECT_EQ(error.code == Code::kPermissionDenied, denied) << status;
    EXPECT_EQ(error.outcome == Outcome::kNotDone, surely_not) << status;
    EXPECT_TRUE(surely_not || error.code == Code::kUnavailable) << status;
  }
  EXPECT_EQ(WriteError(429, "").code, Code::kUnavailable);
  EXPECT_EQ(WriteError(404, "").code, Code::kFailedPrecondition);
  EXPECT_EQ(WriteError(400, "").code, Code::kInvalidArgument);
  EXPECT_EQ(WriteError(307, "").code, Code::kUnavailable);
}

TEST(ReadErrorTest, NoStatusSaysThatSomethingIsMissing) {
  for (int status = 100; status < 600; ++status) {
    EXPECT_NE(ReadError(status, "").code, Code::kNotFound) << status;
    EXPECT_EQ(ReadError(status, "").outcome, Outcome::kNotDone) << status;
  }
  EXPECT_EQ(ReadError(403, "").code, Code::kPermissionDenied);
  EXPECT_EQ(ReadError(503, "").code, Code::kUnavailable);
  EXPECT_EQ(ReadError(206, "").code, Code::kUnavailable);
  EXPECT_EQ(ReadError(400, "").code, Code::kFailedPrecondition);
}

TEST(WriteTransportErrorTest, AFullQueueIsNotDone) {
  const Error full = WriteTransportError(ResourceExhausted("queue"));
  EXPECT_EQ(full.code, Code::kUnavailable);
  EXPECT_EQ(full.outcome, Outcome::kNotDone);
  const Error large = WriteTransportError(ResourceExhausted("answer").MaybeDone());
  EXPECT_EQ(large.code, Code::kUnavailable);
  EXPECT_EQ(large.outcome, Outcome::kMaybeDone);
  EXPECT_EQ(WriteTransportError(DeadlineExceeded("x").MaybeDone()).code, Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace nstance::cloud

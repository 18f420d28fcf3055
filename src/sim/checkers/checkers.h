// The checkers: one factory for each invariant of faults.md section 5 that is held here.
// all_checkers.cc has the list; each checker's file says what it holds and what it excuses.
#pragma once

#include <memory>

#include "sim/world/checker.h"

namespace nstance::sim {

[[nodiscard]] std::unique_ptr<Checker> MakeI01(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI02(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI03(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI04(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI05(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI06(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI07(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI08(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI09(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI10(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI12(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI13(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI14(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI15(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI16(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI17(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI18(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI19(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI20(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI21(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI22(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI23(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI24(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI25(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI26(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI27(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI28(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI29(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI30(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI31(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI32(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI33(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI35(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI36(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI37(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI39(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI40(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI41(CheckerWorld& world);
[[nodiscard]] std::unique_ptr<Checker> MakeI44(CheckerWorld& world);

}  // namespace nstance::sim

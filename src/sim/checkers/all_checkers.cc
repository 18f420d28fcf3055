#include "sim/checkers/checkers.h"

namespace nstance::sim {

std::vector<std::unique_ptr<Checker>> MakeCheckers(CheckerWorld& world) {
  std::vector<std::unique_ptr<Checker>> all;
  for (const auto make :
       {MakeI01, MakeI02, MakeI03, MakeI04, MakeI05, MakeI06, MakeI07, MakeI08, MakeI09, MakeI10,
        MakeI12, MakeI13, MakeI14, MakeI15, MakeI16, MakeI17, MakeI18, MakeI19, MakeI20, MakeI21,
        MakeI22, MakeI23, MakeI24, MakeI25, MakeI26, MakeI27, MakeI28, MakeI29, MakeI30, MakeI31,
        MakeI32, MakeI33, MakeI35, MakeI36, MakeI37, MakeI39, MakeI40, MakeI41, MakeI44}) {
    all.push_back(make(world));
  }
  return all;
}

}  // namespace nstance::sim

// Problems: collects what is wrong with one document, bounded and in the order of the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "core/config/place.h"
#include "core/config/problem.h"

namespace nstance::config {

// Paths that the file spells differently from the form that is checked: "server.cluster_id" is
// "cluster.id" there. The longest match counts, for itself and for all below it.
using PathNames = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] std::string NameInFile(const PathNames& names, std::string path);

class Problems {
 public:
  // At the value.
  void Error(const Place& place, std::string_view message);
  // At the key: for keys that should not be there.
  void ErrorAtKey(const Place& place, std::string_view message);
  // Elsewhere: the second of two equal keys is not in the document.
  void ErrorWhere(json::Position position, const Place& place, std::string_view message);
  // Where there is no place: the text did not parse.
  void ErrorAt(json::Position position, std::string_view message);
  void Warn(const Place& place, std::string_view message);
  void WarnAtKey(const Place& place, std::string_view message);

  void set_path_names(PathNames names) { path_names_ = std::move(names); }
  // `path` as the file spells it.
  [[nodiscard]] std::string NameInFile(std::string path) const {
    return config::NameInFile(path_names_, std::move(path));
  }

  // Whether an error there would be kept: a costly message is not worth making otherwise.
  [[nodiscard]] bool Wants(json::Position position) const;
  [[nodiscard]] std::size_t error_count() const { return errors_.total; }
  // Whether the value at `place` has been found wrong: what was read for it is a default, and says
  // nothing about other values.
  [[nodiscard]] bool HasErrorAt(const Place& place) const;

  // Whether another suggestion may be looked for. They cost time, and a hostile file could ask for
  // one per key; beyond a few hundred nobody reads them.
  [[nodiscard]] bool MaySuggest();

  // The first ones by position, with offsets into `text`.
  [[nodiscard]] std::vector<Problem> TakeErrors(std::string_view text);
  [[nodiscard]] std::vector<Problem> TakeWarnings(std::string_view text);

 private:
  struct List {
    std::vector<Problem> kept;  // By position, at most kMaxProblems.
    std::size_t total = 0;
  };

  void Add(List& list, const Place& place, json::Position position, std::string_view message);
  static void Keep(List& list, Problem problem);

  List errors_;
  List warnings_;
  PathNames path_names_;
  std::size_t suggestions_ = 0;
};

}  // namespace nstance::config

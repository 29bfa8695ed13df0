// What is suggested for the name of an item that there is not.
#include "engine/config/near_item.hpp"

#include <doctest/doctest.h>
#include <plait/device.h>
#include <plait/layer.h>

#include <utility>
#include <vector>

using namespace plait::config;

namespace {

// Items of one kind, by name, with what they do.
class Described : public Catalog {
 public:
  explicit Described(std::vector<std::pair<std::string, std::string>> all) : all_(std::move(all)) {}
  bool find_item(std::string_view, std::string_view name, CatalogItem& out) const override {
    for (const auto& [known, help] : all_)
      if (known == name) return out.help = help, true;
    return false;
  }
  std::vector<std::string> item_names(std::string_view) const override {
    std::vector<std::string> names;
    for (const auto& one : all_) names.push_back(one.first);
    return names;
  }
  std::string load_summary() const override { return ""; }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

std::string near(const Described& catalog, const char* name, const char* kind) {
  return near_item(name, kind, catalog.item_names(kind), catalog);
}

}  // namespace

TEST_CASE("a word of an item's help names it, wherever it stands alone") {
  const Described devices({{"cuda", "a GPUs' driver: NVIDIA GPU"},
                           {"host", "hosted by cores, as a host (of x86)"},
                           {"abacus", "beads"}});
  struct Case {
    const char *name, *meant;
  };
  const Case cases[] = {{"gpu", "cuda"},       // behind "GPUs"
                        {"GPUs", "cuda"},      // before a sign
                        {"x86", "host"},       // between signs
                        {"bead", ""},          // part of a word
                        {"ores", ""},          // its end
                        {"as", ""},            // too short to say anything
                        {"beads", "abacus"}};  // all of it
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK(near(devices, c.name, PLAIT_KIND_DEVICE) == c.meant);
  }
}

TEST_CASE("the word of the kind may stand behind a name, and nothing else may") {
  const Described losses({{"squared", "x"}, {"hinge", "y"}});
  CHECK(near(losses, "SquaredLoss", PLAIT_KIND_LOSS) == "squared");
  CHECK(near(losses, "hinge_loss", PLAIT_KIND_LOSS) == "hinge");
  CHECK(near(losses, "hingeabcd", PLAIT_KIND_LOSS) == "");
  CHECK(near(losses, "loss", PLAIT_KIND_LOSS) == "");
}

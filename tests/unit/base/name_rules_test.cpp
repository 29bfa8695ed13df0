#include "engine/base/name_rules.hpp"

#include <doctest/doctest.h>

#include "tests/unit/error_of.hpp"

using namespace plait;

TEST_CASE("the first rule that matches gives the name, with what the star stood for") {
  const NameRules rules({"model.linear*=fc*", " head = classifier ", "*.weight=*.w", "a*z=z*a"});
  const auto of = [&](std::string_view name) { return rules.find({name}).value_or("-"); };
  CHECK(of("model.linear1.weight") == "fc1.weight");
  CHECK(of("model.linear") == "fc");
  CHECK(of("head") == "classifier");
  CHECK(of("heads") == "-");
  CHECK(of("norm.weight") == "norm.w");
  CHECK(of("norm.bias") == "-");
  CHECK(of("abcz") == "zbca");
  CHECK(of("az") == "za");
  CHECK(of("a") == "-");  // its end is not its beginning
  CHECK(of("z") == "-");
  CHECK(of("abc") == "-");
  CHECK(of("bcz") == "-");
  CHECK(of("") == "-");
}

TEST_CASE("several names of a tensor are tried rule after rule") {
  const NameRules rules({"x=1", "y=2"});
  CHECK(rules.find({"y", "x"}) == "1");
  CHECK(rules.find({"y", "z"}) == "2");
  CHECK_FALSE(rules.find({"z"}));
  CHECK_FALSE(NameRules().find({"x"}));
}

TEST_CASE("a wrong rule is refused with its fault") {
  struct {
    const char *rule, *fault;
  } const cases[] = {{"a=b", ""},
                     {"a*=b*", ""},
                     {"ab", "has no '='"},
                     {"=b", "lacks a name beside '='"},
                     {"a=", "lacks a name beside '='"},
                     {"a= ", "lacks a name beside '='"},
                     {"a=b=c", "has more than one '='"},
                     {"a**=b*", "has more than one '*' on a side"},
                     {"a*=b**", "has more than one '*' on a side"},
                     {"a*=b", "has a '*' on one side only"},
                     {"a=b*", "has a '*' on one side only"}};
  for (const auto& c : cases) {
    CAPTURE(c.rule);
    CHECK(NameRules::fault(c.rule) == c.fault);
  }
  CHECK(test::error_of(
            [] {
              NameRules({"a=b", "c\nd"});
            },
            PLAIT_ERR_INVALID) ==
        "[names] the rule 'c\\x0ad' has no '='; write OURS=THEIRS, for instance "
        "'model.linear*=fc*'");
}

// Cases of draw_tokens: every device gives the same ids. Rows of one logit up to a vocabulary,
// equal logits at the bound of top_k and top_p, rows that draw nothing and those that cannot.
#include <limits>

#include "kit/draw_weight.hpp"
#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

// What a row draws with.
struct Row {
  double temperature = 1, top_p = 1, min_p = 0;
  int64_t top_k = 0, ids = -1;  // -1: all
  bool log_probability = true;
};

struct Logits {
  double low = -8, high = 8;
  std::vector<std::pair<int64_t, double>> set = {};
};

void draw(std::vector<Case>& out, const std::string& name, int64_t v, const std::vector<Row>& rows,
          const Logits& logits = {}) {
  const auto n = static_cast<int64_t>(rows.size());
  Input settings{f32({n, plait::kit::kDrawSettings}), 0, 1},
      numbers{shape(PLAIT_I32, {n, plait::kit::kDrawNumbers}), 0, 1};
  int64_t seed = 12345;
  for (const Row& r : rows) {
    for (const double s : {r.temperature, r.top_p, r.min_p})
      settings.set.emplace_back(settings.set.size(), s);
    seed = seed * 1103515245 % 2147483647;
    for (const int64_t i : {r.ids < 0 ? v : r.ids, r.top_k, int64_t{r.log_probability}, seed % 977,
                            seed % 1000003, int64_t{-5}, seed, seed / 3})
      numbers.set.emplace_back(numbers.set.size(), static_cast<double>(i));
  }
  Case c{"draw_tokens of " + std::to_string(n) + " x " + std::to_string(v) + ", " + name,
         "draw_tokens",
         {{f32({n, v}), logits.low, logits.high, logits.set}, settings, numbers},
         {shape(PLAIT_I32, {n}), f32({n})}};
  c.tolerance = 1e-6;  // less than 1 for an id: ids are equal
  out.push_back(c);
}

// One of each kind.
std::vector<Row> all_kinds(int64_t v) {
  return {{},
          {.temperature = 0},
          {.temperature = 0.7, .log_probability = false},
          {.temperature = 1e-38},
          {.temperature = 3e38},
          {.top_p = 1e-9},
          {.top_p = 0.5},
          {.top_p = 0.95, .top_k = v / 2},
          {.min_p = 0.05},
          {.min_p = 1},
          {.temperature = 1.5, .top_p = 0.9, .min_p = 0.01, .top_k = 40},
          {.top_k = 1},
          {.top_k = v + 7},
          {.ids = 0},
          {.ids = (v + 1) / 2},
          {.top_p = 0.9, .top_k = 3, .ids = v + 3}};
}

// Many rows that draw, so that a sum, a bound or a random number that differs is seen.
void add_many(std::vector<Case>& out, int64_t v) {
  draw(out, "drawn", v, std::vector<Row>(60));
  draw(out, "cold", v, std::vector<Row>(60, {.temperature = 0.3, .log_probability = false}));
  draw(out, "top_p", v, std::vector<Row>(60, {.top_p = 0.8, .log_probability = false}));
  draw(out, "top_k", v, std::vector<Row>(60, {.top_k = 10, .log_probability = false}));
}

}  // namespace

void add_draw_cases(std::vector<Case>& out) {
  for (const int64_t v : {1, 2, 31, 255, 257, 1000, 1025}) {
    draw(out, "all kinds", v, all_kinds(v));
    draw(out, "all kinds, equal logits", v, all_kinds(v), {1, 1});
    // Few values, so that many are equal at a bound.
    draw(out, "all kinds, a few values", v, all_kinds(v), {-1.5, 2.5, {{0, 0.0}, {v - 1, -0.0}}});
  }
  draw(out, "no row", 5, {});
  add_many(out, 31);
  add_many(out, 1000);
  // The greatest of all lies behind the ids; NaN there spoils the log-probability alone.
  draw(out, "part of the logits", 9, {{.ids = 4}, {.ids = 4}, {.temperature = 0, .ids = 4}},
       {-3, 3, {{8, 20}, {9 + 8, kNan}, {18 + 7, kInf}}});
  draw(out, "what cannot be drawn", 4, std::vector<Row>(6),
       {-3,
        3,
        {{1, kNan},
         {6, kInf},
         {9, -kInf},
         {10, -kInf},
         {12, -kInf},
         {13, -kInf},
         {14, -kInf},
         {15, -kInf},
         {16, kInf},
         {19, kNan}}});
  draw(out, "what cannot be drawn, greedy", 4, std::vector<Row>(3, {.temperature = 0}),
       {-3, 3, {{3, kNan}, {5, kInf}, {8, -kInf}, {9, -kInf}, {10, -kInf}, {11, -kInf}}});
  draw(out, "far apart", 300, all_kinds(300), {-1e4, 1e4, {{7, 3e38}, {320, -3e38}}});
  draw(out, "wide settings", 40,
       {{.temperature = -1},
        {.temperature = kNan},
        {.top_p = kNan},
        {.top_p = -1},
        {.min_p = kNan},
        {.min_p = 5},
        {.top_k = -3},
        {.ids = -7},
        {.temperature = kInf}});
  draw(out, "a vocabulary", 50257, {{}, {.top_p = 0.9}, {.top_k = 50}, {.temperature = 0.8}},
       {-12, 4});
  out.back().large = true;
  draw(out, "a vocabulary at once", 50257, {{.temperature = 0.9, .top_p = 0.9, .top_k = 1000}},
       {-12, 4});
}

}  // namespace conformance

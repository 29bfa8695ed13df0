// Ranks as threads of one process, each with an engine of its own, which train together.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <plait/plait.hpp>
#include <string>
#include <vector>

namespace parallel {

// What one rank saw.
struct Outcome {
  std::vector<double> losses, norms;
  int64_t samples = 0;
  std::map<std::string, std::vector<float>> weights;  // by parameter
  std::string evaluation;                             // JSON, without its duration
  uint32_t code = PLAIT_OK;                           // of the error that ended it
  std::string error;
};

// What a rank does with its session; fills what it likes of the outcome.
using Body = std::function<void(uint32_t rank, plait::Session&, Outcome&)>;

// A folder of this process for a test's files, gone when the object is.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// `ranks` sessions of the experiment at once; settings[r] where given, else without files. Rank r's overrides come behind those of all.
// job may change what rank r says of itself; plugins: files besides the tree's own.
struct Team {
  std::string toml;
  std::vector<std::string> overrides;
  std::map<uint32_t, std::vector<std::string>> of_rank;
  std::function<plait::SessionSettings(uint32_t rank)> settings;
  std::function<void(uint32_t rank, plait::JobSettings&)> job = nullptr;
  std::vector<std::string> plugins = {};
};
std::vector<Outcome> run(const Team& team, uint32_t ranks, const Body& body);

// n steps; then weights and an evaluation.
Body train(int n);

// An MLP with dropout, a layer norm, a tied layer, two parameter groups, clipping, weighted samples and an incomplete last batch.
// The folder holds its data.
std::string model(const Folder& folder);
// Ids through an embedding, two branches that meet again, a norm over a shared dimension, shapes in between.
std::string mixed_model(const Folder& folder);
// Ids that predict the next one: an embedding whose table is that of the last layer, too. `vocabulary` of them.
std::string vocabulary_model(const Folder& folder, int vocabulary);

// Bytes of a category of the plan's memory.
double memory_of(const plait::Plan& plan, const std::string& category);

// All ranks of `got` saw the same bits; losses and norms within `tolerance` of `expected`, weights within ten times that.
void check_same(const std::vector<Outcome>& got, const Outcome& expected, double tolerance);

}  // namespace parallel

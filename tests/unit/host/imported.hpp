// Folders of other libraries: imported, computed on the golden batch, exported.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

namespace host {

struct Engine {
  std::unique_ptr<plait_engine, decltype(&plait_engine_close)> engine{new_engine(),
                                                                      plait_engine_close};
  plait_engine* get() const { return engine.get(); }
};

inline std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// format: as TOML. Returns the record.
inline std::string import_folder(const std::string& format, const std::string& from,
                                 const std::string& out) {
  const Engine engine;
  plait_text* t = nullptr;
  check(plait_model_import(engine.get(), format.c_str(), PLAIT_NTS, from.c_str(), out.c_str(), &t));
  return take(t);
}

// Of every family: ids, labels, and by name the library's logits.
inline const plait::test::GoldenFile& families_golden() {
  static const plait::test::GoldenFile file("families.safetensors");
  return file;
}

// An imported experiment on the golden batch, in f64.
inline std::string on_golden_batch(const std::string& imported) {
  std::string toml = content(std::filesystem::path(imported) / "experiment.toml");
  const size_t data = toml.find("[data.train]"), end = toml.find("[optimizer]");
  return toml.replace(
      data, end - data,
      "[precision]\ncompute = \"f64\"\n[data.train]\ntype = \"safetensors\"\npath = \"" +
          families_golden().path() + "\"\ninput = [\"ids\"]\ntarget = [\"labels\"]\n");
}

// (2,24,vocabulary): the logits of the golden batch, two samples of 24 tokens.
inline std::vector<double> logits_of(const Run& run, size_t vocabulary) {
  const std::vector<double> ids = families_golden().values("ids");
  std::vector<int32_t> x(ids.begin(), ids.end());
  int64_t shape[2] = {2, 24};
  plait_dl_tensor tensor{x.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "ids", &tensor};
  std::vector<double> logits(2 * 24 * vocabulary);
  check(plait_session_predict(run.session(), &feed, 1, "output", logits.data(),
                              logits.size() * sizeof(double)));
  return logits;
}

// The greatest difference to the expected logits, of which each sample lacks its first `skipped`
// tokens.
inline double error_of_logits(const Run& run, const std::vector<double>& expected,
                              size_t skipped = 0) {
  const size_t vocabulary = expected.size() / (2 * (24 - skipped));
  const std::vector<double> logits = logits_of(run, vocabulary);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t sample = i / (expected.size() / 2);
    worst =
        std::max(worst, std::abs(logits[i + (sample + 1) * skipped * vocabulary] - expected[i]));
  }
  return worst;
}

// Saves the session beside `out`, and exports that. toml: its experiment. dtype 0: the types of the
// source.
inline void export_session(const Run& run, const std::string& toml, const std::string& format,
                           uint32_t dtype, const std::string& out) {
  const Engine engine;
  const std::string checkpoint = out + ".checkpoint";
  check(plait_session_save(run.session(), checkpoint.c_str()));
  plait_experiment* x = nullptr;
  check(plait_experiment_parse(engine.get(), toml.c_str(), PLAIT_NTS, "test.toml", nullptr, &x));
  const std::unique_ptr<plait_experiment, decltype(&plait_experiment_close)> experiment(
      x, plait_experiment_close);
  plait_export_options o{};
  o.struct_size = sizeof o;
  o.dtype = dtype;
  o.format = format.c_str();
  o.format_size = PLAIT_NTS;
  o.experiment = x;
  plait_text* t = nullptr;
  check(plait_checkpoint_export(engine.get(), checkpoint.c_str(), out.c_str(), &o, &t));
  take(t);
}

}  // namespace host

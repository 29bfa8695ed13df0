// A transformer on every kind of layout: the same losses as one rank, in f64 to the last digits.
#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr double kStrict = 1e-10;
constexpr int kSteps = 6;

JobSpec in_f64(const std::string& toml, const char* device) {
  return {
      toml, {"precision.compute=f64", std::string("run.device=") + device, "batch.eval=8"}, {}, {}};
}

Layout in_sequence(Layout layout) {
  layout.sequence = true;
  return layout;
}

TEST_SUITE("transformer") {
  TEST_CASE("heads, sequence, stages, replicas, recompute: the losses of one rank") {
    const Folder folder;
    for (const char* device : {"cpu", "reference"}) {
      const JobSpec job_spec = in_f64(transformer_model(folder), device);
      const Outcome expected = alone(job_spec, kSteps);
      // Four ranks of the tensor group share two key heads.
      for (const Layout& layout :
           {Layout{1, 1, 2, 0, "1f1b", 1, 4, "cheap"}, Layout{1, 1, 4}, in_sequence({1, 1, 2}),
            in_sequence({1, 1, 4, 0, "1f1b", 1, 4, "cheap"}),
            Layout{1, 2, 1, 3, "1f1b", 1, 4, "cheap"}, Layout{1, 2, 2, 1},
            Layout{2, 1, 1, 0, "zero_bubble", 1, 4, "cheap"},
            Layout{2, 1, 2, 0, "1f1b", 1, 4, "layer"},
            in_sequence({2, 2, 2, 2, "1f1b", 1, 4, "cheap"}),
            Layout{1, 1, 1, 0, "1f1b", 1, 2, "layer"}}) {
        CAPTURE(device);
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(kSteps)), expected, kStrict);
      }
    }
  }

  TEST_CASE("the head in chunks of rows: the losses of the whole one, on every kind of layout") {
    const Folder folder;
    for (const char* device : {"cpu", "reference"}) {
      const JobSpec whole = in_f64(transformer_model(folder), device);
      const Outcome expected = alone(whole, kSteps);
      // Logits of a micro-batch of 16 have 13 KiB. With 0.0002, other values are large, too.
      for (const char* mib : {"0.006", "0.003", "0.0002"}) {
        JobSpec job_spec = whole;
        job_spec.overrides.insert(job_spec.overrides.end(),
                                  {std::string("topology.chunk_mib=") + mib,
                                   "topology.chunk_rows=2", "evaluate.outputs=none"});
        for (const Layout& layout :
             {Layout{1, 1, 1}, Layout{1, 1, 1, 0, "1f1b", 1, 4}, Layout{1, 1, 2},
              in_sequence({1, 1, 2}), Layout{2, 1, 1, 0, "zero_bubble"}, Layout{1, 2, 1, 3},
              Layout{2, 1, 2, 0, "zero_bubble", 1, 4, "layer"}, Layout{2, 2, 1, 2, "zero_bubble"},
              Layout{1, 1, 1, 0, "1f1b", 1, 2, "layer"}, Layout{2, 1, 1, 0, "1f1b", 1, 4},
              Layout{2, 1, 2, 0, "gpipe", 1, 2, "layer"}, Layout{2, 2, 1, 1, "1f1b", 1, 4}}) {
          CAPTURE(device);
          CAPTURE(std::string(mib));
          CAPTURE(layout.text());
          check_same(run(on(job_spec, layout), layout.ranks(), train(kSteps)), expected, kStrict);
        }
      }
    }
  }

  TEST_CASE("experts: the losses of one rank, on every kind of layout") {
    const Folder folder;
    for (const char* device : {"cpu", "reference"}) {
      const JobSpec job_spec = in_f64(experts_model(folder), device);
      const Outcome expected = alone(job_spec, kSteps);
      for (const Layout& layout :
           {Layout{1, 1, 2}, Layout{1, 1, 4}, in_sequence({1, 1, 2}),
            in_sequence({1, 1, 4, 0, "1f1b", 1, 4, "cheap"}),
            Layout{1, 2, 1, 3, "1f1b", 1, 4, "cheap"}, Layout{1, 2, 2, 1},
            Layout{2, 1, 1, 0, "zero_bubble", 1, 4, "cheap"},
            Layout{2, 1, 2, 0, "1f1b", 1, 4, "layer"}, Layout{2, 1, 2, 0, "zero_bubble", 1, 2},
            in_sequence({2, 2, 2, 2, "1f1b", 1, 4, "cheap"}),
            Layout{1, 1, 1, 0, "1f1b", 1, 2, "layer"}}) {
        CAPTURE(device);
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(kSteps)), expected, kStrict);
      }
    }
  }

  TEST_CASE("eight tensor ranks do not divide four heads: they gather, the losses stay") {
    const Folder folder;
    const JobSpec job_spec = in_f64(transformer_model(folder), "cpu");
    const Layout layout{1, 1, 8};
    check_same(run(on(job_spec, layout), layout.ranks(), train(kSteps)), alone(job_spec, kSteps),
               kStrict);
  }
}

}  // namespace

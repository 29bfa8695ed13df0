// What tests of generation share: a generator that keeps what it was given, and a trained Llama.
#pragma once

#include <plait/generate.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

namespace host {

struct Drawn {
  std::vector<int32_t> ids;
  std::vector<double> log_probabilities;
  std::string text;
  uint32_t finish = PLAIT_FINISH_NONE;
  int64_t reused = 0;
};

class Generator {
 public:
  explicit Generator(const Run& run, const plait_tokenizer* tokenizer = nullptr) {
    plait_generator_options o{sizeof o, tokenizer};
    plait_generator* g = nullptr;
    check(plait_generator_open(run.session(), &o, &g));
    generator_.reset(g);
  }
  plait_generator* get() const { return generator_.get(); }
  uint64_t add(plait_prompt p) {
    p.struct_size = sizeof p;
    uint64_t sequence = 0;
    check(plait_generator_add(get(), &p, &sequence));
    return sequence;
  }
  uint64_t add(const std::vector<int32_t>& ids, plait_prompt p = {}) {
    p.ids = ids.data();
    p.n_ids = ids.size();
    return add(p);
  }
  uint64_t step() {
    uint64_t left = 0;
    check(plait_generator_step(get(), on_token, this, &left));
    return left;
  }
  void finish() {
    while (step() > 0) {
    }
  }
  const Drawn& of(uint64_t sequence) const { return drawn_.at(sequence); }
  uint64_t end_after = 0;  // tokens, by the callback; 0: never

 private:
  static uint32_t on_token(void* user, const plait_token* t) {
    auto& self = *static_cast<Generator*>(user);
    Drawn& d = self.drawn_[t->sequence];
    CHECK(d.finish == PLAIT_FINISH_NONE);
    if (t->id >= 0) {
      CHECK(t->index == static_cast<int64_t>(d.ids.size()));
      d.ids.push_back(t->id);
      d.log_probabilities.push_back(t->log_probability);
    }
    d.text.append(t->text ? t->text : "", t->size);
    d.finish = t->finish;
    d.reused = t->n_reused;
    return self.end_after > 0 && d.ids.size() >= self.end_after ? 1 : 0;
  }
  std::unique_ptr<plait_generator, decltype(&plait_generator_close)> generator_{
      nullptr, plait_generator_close};
  std::map<uint64_t, Drawn> drawn_;
};

inline const plait_sampling kGreedy{sizeof(plait_sampling), 0, 0, 0, 0, 0, 0};

// The trained Llama of tests/golden/stories260k; `generate`: lines of [generate].
inline std::string stories(const std::string& generate) {
  static const plait::test::GoldenFile weights("stories260k/model.safetensors");
  return R"([batch]
global = 1
[generate]
)" + generate +
         R"(
[model]
load = ")" +
         weights.path() +
         R"("
load_names = ["model.h*.attn_norm.gain=model.layers.*.input_layernorm.weight",
 "model.h*.attn.q.weight=model.layers.*.self_attn.q_proj.weight",
 "model.h*.attn.k.weight=model.layers.*.self_attn.k_proj.weight",
 "model.h*.attn.v.weight=model.layers.*.self_attn.v_proj.weight",
 "model.h*.attn.out.weight=model.layers.*.self_attn.o_proj.weight",
 "model.h*.mlp_norm.gain=model.layers.*.post_attention_layernorm.weight",
 "model.h*.mlp.gate.weight=model.layers.*.mlp.gate_proj.weight",
 "model.h*.mlp.up.weight=model.layers.*.mlp.up_proj.weight",
 "model.h*.mlp.down.weight=model.layers.*.mlp.down_proj.weight",
 "model.embed.weight=model.embed_tokens.weight", "model.norm.gain=model.norm.weight"]
layers = [{type = "embedding", name = "embed", vocabulary = 512, width = 64},
 {type = "decoder_block", name = "h", repeat = 5, heads = 8, kv_heads = 4, ffn = 172, )"
         R"(norm = "rms_norm", mlp = "swiglu", rope = "half"},
 {type = "rms_norm", name = "norm"},
 {type = "linear", name = "head", out = 512, bias = false, tie = {weight = "model.embed.weight"}}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
)";
}
inline const std::string kOnly = "only = true\nlength = 257\n";

inline std::vector<int32_t> story() {
  static const plait::test::GoldenFile file("stories260k/reference.safetensors");
  std::vector<int32_t> ids;
  for (const double id : file.values("greedy_ids")) ids.push_back(static_cast<int32_t>(id));
  return ids;
}
inline std::vector<int32_t> beginning(size_t n) {
  const std::vector<int32_t> all = story();
  return {all.begin(), all.begin() + static_cast<long>(n)};
}
inline std::vector<int32_t> rest(size_t n, size_t count = 1000) {
  const std::vector<int32_t> all = story();
  return {all.begin() + static_cast<long>(n),
          all.begin() + static_cast<long>(std::min(all.size(), n + count))};
}

inline plait_prompt greedy(int64_t max_tokens = 0) {
  plait_prompt p{};
  p.sampling = &kGreedy;
  p.max_tokens = max_tokens;
  return p;
}

}  // namespace host

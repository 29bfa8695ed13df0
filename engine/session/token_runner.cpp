#include "engine/session/token_runner.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace plait::session {
namespace {

constexpr kit::DrawSettings kNoDraw;

}  // namespace

TokenRunner::Inputs::Inputs(runtime::Executor& executor, const plan::GenerationInputs& plan)
    : plan_(plan),
      block_(plan.bytes / sizeof(int32_t), 0),
      uploads_(executor.queue(), 2, plan.bytes) {}

void TokenRunner::Inputs::set(int64_t b, int64_t k, int32_t id, int64_t at) {
  const int64_t i = b * plan_.tokens + k;
  part(plan_.ids)[i] = id;
  part(plan_.at)[i] = static_cast<int32_t>(at);
  part(plan_.positions)[i] = static_cast<int32_t>(std::max<int64_t>(at, 0));
}

void TokenRunner::Inputs::set_draw(int64_t b, const kit::DrawSettings& draw) {
  float settings[kit::kDrawSettings];
  kit::write_row(draw, settings, part(plan_.numbers) + b * kit::kDrawNumbers);
  for (int64_t i = 0; i < kit::kDrawSettings; ++i)
    part(plan_.settings)[b * kit::kDrawSettings + i] = std::bit_cast<int32_t>(settings[i]);
}

void TokenRunner::Inputs::write(runtime::Executor& executor) {
  uploads_.begin();
  uploads_.write(executor.address(plan_.ids), block_.data(), plan_.bytes);
  uploads_.end();
}

TokenRunner::TokenRunner(SessionContext& context, StepRunner& steps)
    : c_(context),
      steps_(steps),
      prefill_(c_.plan.entry_point(plan::kPrefill)),
      decode_(c_.plan.entry_point(plan::kDecode)),
      chunk_(c_.executor, plan().prefill),
      tokens_(c_.executor, plan().decode),
      logits_(static_cast<size_t>(plan().slots * plan().vocabulary)),
      drawn_(plan().draws() ? first_log_probability() + static_cast<size_t>(plan().slots) : 0) {}

void TokenRunner::launch(const plan::EntryPoint& entry) {
  c_.refresh_low();
  c_.refresh_int8();
  for (const auto& group : c_.executor.launches(entry)) c_.executor.launch(group);
}

void TokenRunner::prefill(int32_t slot, std::span<const int32_t> ids, int64_t from, int64_t length,
                          int32_t adapter) {
  if (ids.empty()) return;
  steps_.drain();
  c_.on_all_ranks("a prompt", [&] {
    const auto chunk = static_cast<size_t>(plan().prefill.tokens);
    for (size_t first = 0; first < ids.size(); first += chunk) {
      for (size_t k = 0; k < chunk; ++k) {
        const size_t i = first + k;
        const bool there = i < ids.size();
        chunk_.set(0, static_cast<int64_t>(k), there ? ids[i] : 0,
                   there ? from + static_cast<int64_t>(i) : -1);
      }
      chunk_.set_sequence(0, slot, length, adapter);
      chunk_.write(c_.executor);
      launch(prefill_);
      c_.executor.sync();  // before the block is written again
    }
  });
}

void TokenRunner::decode(std::span<const Token> tokens) {
  steps_.drain();
  c_.on_all_ranks("a token", [&] {
    for (int64_t b = 0; b < plan().slots; ++b) {
      const auto i = static_cast<size_t>(b);
      const bool there = i < tokens.size();
      tokens_.set(b, 0, there ? tokens[i].id : 0, there ? tokens[i].at : -1);
      tokens_.set_sequence(b, there ? tokens[i].slot : 0, there ? tokens[i].at + 1 : 0,
                           there ? tokens[i].adapter : -1);
      if (plan().draws()) tokens_.set_draw(b, there && draws(tokens[i]) ? tokens[i].draw : kNoDraw);
    }
    tokens_.write(c_.executor);
    launch(decode_);
    read(tokens);
  });
}

void TokenRunner::read(std::span<const Token> tokens) {
  const auto bytes = static_cast<uint64_t>(plan().vocabulary) * sizeof(float);
  const auto rows = [&](size_t first, size_t n) {
    const plan::BufferRef& at = plan().logits;
    c_.executor.read({at.segment, at.offset + first * bytes},
                     logits_.data() + first * static_cast<size_t>(plan().vocabulary), n * bytes);
  };
  if (!plan().draws()) return rows(0, tokens.size());
  c_.executor.read(plan().drawn, drawn_.data(), drawn_.size() * sizeof(int32_t));
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].on_host) rows(i, 1);
}

bool TokenRunner::take_unchanged() {
  steps_.drain();
  const auto before = std::exchange(version_, c_.parameter_version());
  return !on_any_rank(!version_ || before != version_);
}

bool TokenRunner::take_cancel() {
  return on_any_rank(c_.cancelled.exchange(false, std::memory_order_relaxed));
}

bool TokenRunner::on_any_rank(bool own) {
  if (c_.ranks.is_single()) return own;
  return c_.on_all_ranks("a token", [&] { return c_.on_any_rank(own); });
}

kit::Drawn TokenRunner::drawn(size_t i) const {
  return {drawn_[i], std::bit_cast<float>(drawn_[first_log_probability() + i])};
}

std::span<const float> TokenRunner::logits(size_t i) const {
  const auto v = static_cast<size_t>(plan().vocabulary);
  return std::span<const float>(logits_).subspan(i * v, v);
}

}  // namespace plait::session

#include "tests/unit/support/fake_builder.hpp"

namespace plait::fake {

Tensor::Tensor(std::vector<int64_t> d, std::vector<double> values, uint32_t type)
    : dims(std::move(d)), v(std::move(values)), dtype(type) {
  size_t n = 1;
  for (const int64_t e : dims) n *= static_cast<size_t>(e);
  if (v.size() == 1) v.resize(n, v[0]);
  if (v.size() != n) throw std::logic_error("a test's tensor has the wrong number of values");
}

Builder::Builder() { base_.table = table(); }

std::vector<int64_t> Attrs::ints(const char* name) const {
  const plait_attr* a = find(name);
  return a ? std::vector<int64_t>(a->ints, a->ints + a->n) : std::vector<int64_t>();
}

const plait_attr* Attrs::find(const std::string& name) const {
  for (uint32_t i = 0; i < n_; ++i)
    if (name == attrs_[i].name) return &attrs_[i];
  return nullptr;
}

namespace {
plait_error* fail(uint32_t code, const std::string& text) { return new plait_error{code, text}; }

plait_shape shape_of(const Tensor& t) {
  plait_shape s{t.dtype, static_cast<uint32_t>(t.dims.size()), {}};
  for (size_t i = 0; i < t.dims.size(); ++i) s.dims[i] = t.dims[i];
  return s;
}
}  // namespace

const plait_build_table* Builder::table() {
  static const plait_build_table table = {
      sizeof(plait_build_table),
      [](plait_builder* b, const char* name, const plait_value* in, uint32_t n_in,
         const plait_attr* attrs, uint32_t n_attrs, plait_value* out,
         uint32_t n_out) -> plait_error* {
        Builder& s = self(b);
        std::vector<const Tensor*> operands;
        for (uint32_t i = 0; i < n_in; ++i) operands.push_back(&s.at(in[i]));
        std::vector<Tensor> results;
        try {
          if (!run(name, operands, Attrs(attrs, n_attrs), s.uniform, results))
            return fail(PLAIT_ERR_NOT_FOUND, std::string("[fake] no op ") + name);
        } catch (const std::invalid_argument& e) {
          return fail(PLAIT_ERR_INVALID, std::string("[fake] op ") + name + ": " + e.what());
        }
        s.ops.emplace_back(name);
        for (uint32_t i = 0; i < n_out; ++i) out[i] = s.push(std::move(results.at(i)));
        return nullptr;
      },
      [](plait_builder* b, double value, plait_value* out) -> plait_error* {
        *out = self(b).push(Tensor({}, {value}));
        return nullptr;
      },
      [](plait_builder* b, plait_value v, plait_shape* out) -> plait_error* {
        *out = shape_of(self(b).at(v));
        return nullptr;
      },
      [](plait_builder* b, const plait_parameter* p, plait_value* out) -> plait_error* {
        Builder& s = self(b);
        const std::vector<int64_t> dims(p->shape.dims, p->shape.dims + p->shape.ndim);
        const auto given = s.given.find(p->name);
        *out = s.push(given == s.given.end() ? Tensor(dims, {1}) : given->second);
        if (s.at(*out).dims != dims)
          return fail(PLAIT_ERR_INVALID, "[fake] parameter of another shape");
        s.parameters[p->name] = {*p, *out};
        return nullptr;
      },
      [](plait_builder* b, const char* name, plait_value* out) -> plait_error* {
        Builder& s = self(b);
        const auto i = s.named.find(name);
        if (i == s.named.end())
          return fail(PLAIT_ERR_NOT_FOUND, std::string("[fake] nothing is named ") + name);
        *out = s.push(i->second);
        return nullptr;
      },
      [](plait_builder* b) -> uint32_t { return self(b).training; },
      [](plait_builder*) -> const char* { return "model.it"; },
      [](plait_builder* b, const char* name, double initial, plait_value* out) -> plait_error* {
        Builder& s = self(b);
        const auto i = s.states.find(name);
        *out = s.push(i == s.states.end() ? Tensor(s.state_like.dims, {initial}) : i->second);
        return nullptr;
      },
      [](plait_builder* b, const char* name, plait_value v) -> plait_error* {
        Builder& s = self(b);
        const auto own = s.state_dims.find(name);
        if (s.at(v).dims != (own == s.state_dims.end() ? s.state_like.dims : own->second))
          return fail(PLAIT_ERR_INVALID, "[fake] state of another shape");
        s.new_states[name] = s.at(v);
        return nullptr;
      },
      [](plait_builder*, uint32_t code, const char* text, uint64_t size) -> plait_error* {
        return fail(code, size == PLAIT_NTS ? std::string(text) : std::string(text, size));
      },
      [](plait_builder* b, const plait_state* state, plait_value* out) -> plait_error* {
        Builder& s = self(b);
        const std::vector<int64_t> dims(state->shape.dims, state->shape.dims + state->shape.ndim);
        s.state_dims[state->name] = dims;
        const auto i = s.states.find(state->name);
        *out = s.push(i == s.states.end() ? Tensor(dims, {state->initial}) : i->second);
        return nullptr;
      },
      [](plait_builder* b, const char* name, double factor, plait_value sum,
         plait_value weight) -> plait_error* {
        Builder& s = self(b);
        s.losses[name] += factor * s.at(sum).v.at(0) / s.at(weight).v.at(0);
        return nullptr;
      },
  };
  return &table;
}

}  // namespace plait::fake

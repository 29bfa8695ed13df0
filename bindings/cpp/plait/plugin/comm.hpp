// plait/plugin/comm.hpp - communication backends as classes.
#pragma once

#include <plait/comm.h>
#include <plait/plugin/items.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace plait {
inline namespace authoring {

// The key-value store through which the ranks of a group publish small values. Borrowed until the
// group closes. [thread: any]
class Store {
 public:
  Store(const Host& host, const plait_store* s) : host_(host.raw()), s_(s) {}
  void set(const std::string& key, std::string_view value) const {
    check(s_->set(s_->self, key.c_str(), value.data(), value.size()));
  }
  // The same where nothing can be done about an error. False: nothing was published, for instance
  // as the key is in use.
  bool try_set(const char* key, std::string_view value) const noexcept {
    plait_error* const e = s_->set(s_->self, key, value.data(), value.size());
    host_->error_free(e);
    return !e;
  }
  // Waits for a value of at most `Most` bytes. If it does not arrive, the error has the text
  // `missed` and as its cause the error of the store, which says whether a rank is late or the job
  // is over.
  template <size_t Most = 1024>
  std::string get(const std::string& key, const std::string& missed) const {
    std::array<char, Most> value;
    uint64_t size = 0;
    if (plait_error* e = s_->get(s_->self, key.c_str(), value.data(), Most, &size))
      throw Error(host_->error_new(host_->error_code(e), missed.data(), missed.size(), e));
    return std::string(value.data(), size);
  }

  // The same for at most `seconds`; nullopt if the value does not arrive. A store without
  // get_within() waits as get() does. Errors: of the store; `missed` where that waits too long.
  template <size_t Most = 1024>
  std::optional<std::string> get_within(const std::string& key, double seconds,
                                        const std::string& missed) const {
    if (!has_get_within()) return get<Most>(key, missed);
    std::array<char, Most> value;
    uint64_t size = 0;
    uint32_t found = 0;
    check(s_->get_within(s_->self, key.c_str(), seconds, value.data(), Most, &size, &found));
    if (!found) return std::nullopt;
    return std::string(value.data(), size);
  }
  // Stores of older hosts have none.
  bool has_get_within() const {
    constexpr size_t kSize = offsetof(plait_store, get_within) + sizeof(plait_store::get_within);
    return s_->struct_size >= kSize && s_->get_within;
  }

 private:
  const plait_host* host_;
  const plait_store* s_;
};

// What plait_comm_item.shared_memory() tells.
struct SharedMemory {
  uint64_t bytes = 0;
  uint64_t available = UINT64_MAX;  // not known
};

namespace detail {
// Groups and calls are stored with the host, so that every function can create errors.
template <class G>
struct CommBox {
  const plait_host* host;
  G group;
  CommBox(const plait_host* h, const plait_options* o, const plait_comm_setup& s)
      : host(h), group(Host(h), Options(o), s) {}
};
template <class G>
struct CommCallBox {
  const plait_host* host;
  typename G::Call call;
  CommCallBox(const plait_host* h, G& group, const plait_comm_desc& desc)
      : host(h), call(group, desc) {}
};
template <class G>
concept has_memory = requires(G group) {
  { group.memory(uint64_t{}) } -> std::convertible_to<void*>;
};
// memory() of G; nullptr if G has none.
template <class G>
constexpr decltype(plait_comm_item::memory) memory_of() {
  if constexpr (has_memory<G>)
    return [](plait_comm* c, uint64_t bytes, void** out) -> plait_error* {
      auto* box = reinterpret_cast<CommBox<G>*>(c);
      return guard(maker(box->host), [&] { *out = box->group.memory(bytes); });
    };
  else
    return nullptr;
}
template <class G>
concept has_status = requires(G group) {
  group.status();
};
template <class G>
concept has_probe = requires(const Host& host, const Options& options, const plait_comm_needs& n) {
  G::probe(host, options, n);
};
// nullptr where G has none.
template <class G>
constexpr decltype(plait_comm_item::probe) probe_of() {
  if constexpr (has_probe<G>)
    return [](const plait_host* h, const plait_options* o,
              const plait_comm_needs* needs) -> plait_error* {
      return guard(maker(h), [&] { G::probe(Host(h), Options(o), *needs); });
    };
  else
    return nullptr;
}
template <class G>
concept has_shared_memory = requires(const Host& host, const Options& options,
                                     const plait_comm_needs& n) {
  G::shared_memory(host, options, n).bytes;
};
// nullptr where G has none.
template <class G>
constexpr decltype(plait_comm_item::shared_memory) shared_memory_of() {
  if constexpr (has_shared_memory<G>)
    return [](const plait_host* h, const plait_options* o, const plait_comm_needs* needs,
              uint64_t* bytes, uint64_t* available) -> plait_error* {
      return guard(maker(h), [&] {
        const SharedMemory found = G::shared_memory(Host(h), Options(o), *needs);
        *bytes = found.bytes;
        *available = found.available;
      });
    };
  else
    return nullptr;
}
// nullptr where G has none.
template <class G>
constexpr decltype(plait_comm_item::status) status_of() {
  if constexpr (has_status<G>)
    return [](plait_comm* c) -> plait_error* {
      auto* box = reinterpret_cast<CommBox<G>*>(c);
      return guard(maker(box->host), [&] { box->group.status(); });
    };
  else
    return nullptr;
}
}  // namespace detail

// A process group class G, one rank's endpoint: G(const Host&, const Options&, const
// plait_comm_setup&) connects, ~G() leaves, void abort(std::string_view) noexcept. Its class
// G::Call is one call: Call(G&, const plait_comm_desc&), void start(plait_queue*), void
// finish(plait_queue*). Where G has void* memory(uint64_t bytes), it is the group's; where it has
// void status(), that throws when the group has failed; static void probe(const Host&, const
// Options&, const plait_comm_needs&) throws where the machine does not suffice, and static
// SharedMemory shared_memory(the same) says what such ranks share. All but abort may throw.
// `reach`: PLAIT_COMM_REACH_*. `device`: whose memory it exchanges; nullptr: host memory.
template <class G>
plait_comm_item comm(const char* name, const char* help, uint32_t reach, const char* device,
                     std::span<const plait_option> options = {}) {
  using Box = detail::CommBox<G>;
  using CallBox = detail::CommCallBox<G>;
  return {sizeof(plait_comm_item),
          name,
          help,
          options.data(),
          detail::count(options),
          reach,
          device,
          [](const plait_host* h, const plait_options* o, const plait_comm_setup* setup,
             plait_comm** out) -> plait_error* {
            return detail::guard(detail::maker(h), [&] {
              *out = reinterpret_cast<plait_comm*>(new Box(h, o, *setup));
            });
          },
          [](plait_comm* c) { delete reinterpret_cast<Box*>(c); },
          [](plait_comm* c, const plait_comm_desc* desc, plait_comm_call** out) -> plait_error* {
            auto* box = reinterpret_cast<Box*>(c);
            return detail::guard(detail::maker(box->host), [&] {
              *out = reinterpret_cast<plait_comm_call*>(new CallBox(box->host, box->group, *desc));
            });
          },
          [](plait_comm_call* c) { delete reinterpret_cast<CallBox*>(c); },
          [](plait_comm_call* c, plait_queue* queue) -> plait_error* {
            auto* box = reinterpret_cast<CallBox*>(c);
            return detail::guard(detail::maker(box->host), [&] { box->call.start(queue); });
          },
          [](plait_comm_call* c, plait_queue* queue) -> plait_error* {
            auto* box = reinterpret_cast<CallBox*>(c);
            return detail::guard(detail::maker(box->host), [&] { box->call.finish(queue); });
          },
          [](plait_comm* c, const char* text, uint64_t size) {
            const auto length = size == PLAIT_NTS ? std::char_traits<char>::length(text) : size;
            reinterpret_cast<Box*>(c)->group.abort(std::string_view(text, length));
          },
          detail::memory_of<G>(),
          detail::status_of<G>(),
          detail::probe_of<G>(),
          detail::shared_memory_of<G>()};
}

}  // namespace authoring
}  // namespace plait

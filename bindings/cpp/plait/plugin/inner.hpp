// plait/plugin/inner.hpp - tokenizers and datasets of any plugin, used by an item that has them as
// an option.
#pragma once

#include <plait/dataset.h>
#include <plait/tokenizer.h>
#include <plait/plugin/items.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait {
inline namespace authoring {

namespace detail {
template <class Table>
const Table& host_table(const Host& host, const char* id) {
  const auto* table = static_cast<const Table*>(host.raw()->extension(host.raw(), id));
  if (!table) fail(PLAIT_ERR_PLUGIN, std::string("the host has no ") + id + "; use a newer one");
  return *table;
}
}  // namespace detail

// Any thread, several at a time. All functions throw plait::Error.
class HostTokenizer {
 public:
  HostTokenizer(const Host& host, const InnerItem& item)
      : table_(detail::host_table<plait_tokenizers_table>(host, PLAIT_EXTENSION_TOKENIZERS)) {
    check(table_.open(host.raw(), item.type, item.options, &tokenizer_));
  }
  ~HostTokenizer() { table_.close(tokenizer_); }
  HostTokenizer(const HostTokenizer&) = delete;
  HostTokenizer& operator=(const HostTokenizer&) = delete;

  const plait_tokenizer_info& info() const { return *table_.info(tokenizer_); }
  std::span<const plait_special_token> specials() const {
    return {info().specials, info().n_specials};
  }
  // Appends the ids. flags: PLAIT_ENCODE_*.
  void encode(std::string_view text, uint32_t flags, std::vector<int32_t>& to) const {
    struct Ids {
      std::vector<int32_t>& all;
      bool out_of_memory = false;
    } into{to};
    check(table_.encode(
        tokenizer_, text.data(), text.size(), flags,
        [](void* user, const int32_t* ids, uint64_t n) -> uint32_t {
          auto& given = *static_cast<Ids*>(user);
          try {
            given.all.insert(given.all.end(), ids, ids + n);
          } catch (...) {
            given.out_of_memory = true;
          }
          return given.out_of_memory ? 1 : 0;
        },
        &into, nullptr));
    if (into.out_of_memory) throw std::bad_alloc();
  }

 private:
  const plait_tokenizers_table& table_;
  plait_host_tokenizer* tokenizer_ = nullptr;
};

// Any thread, several at a time. All functions throw plait::Error.
class HostDataset {
 public:
  HostDataset(const Host& host, const InnerItem& item)
      : table_(&detail::host_table<plait_datasets_table>(host, PLAIT_EXTENSION_DATASETS)) {
    plait_host_dataset* d = nullptr;
    check(table_->open(host.raw(), item.type, item.options, &d));
    dataset_ = {d, table_->close};
  }
  const plait_dataset_info& info() const { return *table_->info(dataset_.get()); }
  std::span<const plait_field> fields() const { return {info().fields, info().n_fields}; }
  // As plait_dataset_item.read.
  void read(std::span<const int64_t> indices, void* const* outs) const {
    check(table_->read(dataset_.get(), indices.data(), indices.size(), outs));
  }
  // As plait_dataset_item.read_epoch; as read() with a host of an earlier version.
  void read_epoch(int64_t epoch, std::span<const int64_t> indices, void* const* outs) const {
    constexpr size_t kSize =
        offsetof(plait_datasets_table, read_epoch) + sizeof(table_->read_epoch);
    if (table_->struct_size < kSize) return read(indices, outs);
    check(table_->read_epoch(dataset_.get(), epoch, indices.data(), indices.size(), outs));
  }
  // As plait_dataset_item.text_of; nullptr with a host of an earlier version.
  const char* text_of(uint32_t field, uint32_t what, uint64_t index) const noexcept {
    constexpr size_t kSize = offsetof(plait_datasets_table, text_of) + sizeof(table_->text_of);
    return table_->struct_size < kSize ? nullptr
                                       : table_->text_of(dataset_.get(), field, what, index);
  }

 private:
  const plait_datasets_table* table_;
  std::unique_ptr<plait_host_dataset, void (*)(plait_host_dataset*)> dataset_{nullptr, nullptr};
};

}  // namespace authoring
}  // namespace plait

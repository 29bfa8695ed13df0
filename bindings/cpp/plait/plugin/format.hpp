// plait/plugin/format.hpp - formats made of two C++ functions.
#pragma once

#include <plait/format.h>
#include <plait/plugin/items.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait {
inline namespace authoring {

// Where a format writes. Every function throws Stopped when the engine wants no more.
class FormatOutput {
 public:
  explicit FormatOutput(const plait_format_output* out, const plait_host* host = nullptr)
      : out_(out), host_(host) {}
  struct Stopped {};

  void file(const std::string& name, std::string_view content) const {
    go_on(out_->file(out_->user, name.c_str(), content.data(), content.size()));
  }
  void copy(const std::string& name, const std::string& path) const {
    go_on(out_->copy(out_->user, name.c_str(), path.c_str()));
  }
  // Rows of a tensor; n_rows 0: all from `row` on.
  void place(const std::string& parameter, const std::string& tensor, bool transposed = false,
             int64_t row = 0, int64_t n_rows = 0) const {
    const plait_tensor_place at{parameter.c_str(),
                                tensor.c_str(),
                                row,
                                n_rows,
                                transposed ? PLAIT_PLACE_TRANSPOSED : 0u,
                                0};
    place(at);
  }
  void place(const plait_tensor_place& at) const { go_on(out_->place(out_->user, &at)); }
  // A parameter whose slices along its first dimension are these tensors.
  void slices(const std::string& parameter, std::span<const std::string> tensors) const {
    std::vector<const char*> names;
    for (const std::string& tensor : tensors) names.push_back(tensor.c_str());
    slices({parameter.c_str(), names.data(), names.size(), 0, 0, 0, 0});
  }
  void slices(const plait_tensor_slices& at) const {
    need(offsetof(plait_format_output, slices));
    go_on(out_->slices(out_->user, &at));
  }
  void block(const plait_tensor_block& at) const {
    need(offsetof(plait_format_output, block));
    go_on(out_->block(out_->user, &at));
  }
  // The file that holds all tensors, if it is not model.safetensors.
  void weights(const std::string& name) const {
    need(offsetof(plait_format_output, weights));
    go_on(out_->weights(out_->user, name.c_str()));
  }
  void ignore(const std::string& pattern) const {
    go_on(out_->ignore(out_->user, pattern.c_str()));
  }
  // Something that the user should know, in the log: "[format.hf] ...".
  void warn(std::string_view text) const {
    if (host_) Host(host_).log(PLAIT_LOG_WARN, text);
  }

 private:
  void need(size_t field) const {
    if (out_->struct_size <= field)
      fail(PLAIT_ERR_UNIMPLEMENTED, "this format needs a newer version of the engine");
  }
  static void go_on(uint32_t stop) {
    if (stop) throw Stopped();
  }
  const plait_format_output* out_;
  const plait_host* host_;
};

using ReadFormat = void (*)(const Options&, const std::string& folder, const FormatOutput&);
using WriteFormat = void (*)(const Options&, std::string_view model, const FormatOutput&);

// A format made of two functions, which may throw; nullptr: it is only written, or only read.
template <ReadFormat Read, WriteFormat Write>
plait_format_item format(const char* name, const char* help,
                         std::span<const plait_option> options = {}) {
  plait_format_item item{};
  item.struct_size = sizeof item;
  item.name = name;
  item.help = help;
  item.options = options.data();
  item.n_options = detail::count(options);
  if constexpr (Read != nullptr)
    item.read = [](const plait_host* h, const plait_options* o, const char* folder,
                   const plait_format_output* out) -> plait_error* {
      return detail::guard(detail::maker(h), [&] {
        try {
          Read(Options(o), folder, FormatOutput(out, h));
        } catch (const FormatOutput::Stopped&) {  // the engine knows why
        }
      });
    };
  if constexpr (Write != nullptr)
    item.write = [](const plait_host* h, const plait_options* o, const char* model, uint64_t size,
                    const plait_format_output* out) -> plait_error* {
      return detail::guard(detail::maker(h), [&] {
        try {
          Write(Options(o), {model, size}, FormatOutput(out, h));
        } catch (const FormatOutput::Stopped&) {  // the engine knows why
        }
      });
    };
  return item;
}

}  // namespace authoring
}  // namespace plait

// gather, scatter_add and one_hot. V rows of a table, W elements per row, N indices.
#include <cstring>
#include <limits>

#include "kit/dtype.hpp"
#include "kit/ops/gather.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

// Rows are moved byte by byte. An index outside [0, V) gives a row of NaN, or of zeros where the
// type has no NaN. Of a part of a table: rows of the other parts are zeros, so that all parts'
// results add up.
class PlainGather {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_gather(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainGather(plait_device*, const plait_op_desc& d)
      : shape_(parse_gather(d)), type_(d.inputs[0].dtype) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto size = static_cast<int64_t>(dtype_bytes(type_)) * shape_.width;
    const auto* table = static_cast<const char*>(operands[0]);
    auto* y = static_cast<char*>(operands[2]);
    for (int64_t i = 0; i < shape_.count; ++i) {
      const int64_t id = read_index(shape_.index, operands[1], i);
      const int64_t row = shape_.known(id) ? id - shape_.first : -1;
      if (row >= 0 && row < shape_.rows) {
        if (size) std::memcpy(y + i * size, table + row * size, static_cast<size_t>(size));
      } else if (shape_.known(id)) {
        if (size) std::memset(y + i * size, 0, static_cast<size_t>(size));
      } else {
        const double nan = is_float(type_) ? std::numeric_limits<double>::quiet_NaN() : 0;
        for (int64_t j = 0; j < shape_.width; ++j)
          write_element(type_, y, i * shape_.width + j, nan);
      }
    }
  }

 private:
  Gather shape_;
  uint32_t type_;
};

// Column by column, so that sums are kept in double; in the order of the indices. An index outside
// of the table, or of the part that begins at `first`, is ignored.
class PlainScatterAdd {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(parse_scatter_add(d).rows);
    why = "plain loops in double";
    return true;
  }
  PlainScatterAdd(plait_device*, const plait_op_desc& d)
      : shape_(parse_scatter_add(d)), type_(d.inputs[0].dtype), sum_(d.outputs[0].dtype) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const auto column = Scratch(workspace).row(shape_.rows);
    for (int64_t j = 0; j < shape_.width; ++j) {
      for (size_t v = 0; v < column.size(); ++v)
        column[v] = shape_.accumulate ? read_element(sum_, operands[2],
                                                     static_cast<int64_t>(v) * shape_.width + j)
                                      : 0;
      for (int64_t i = 0; i < shape_.count; ++i) {
        const int64_t row = local_row(read_index(shape_.index, operands[1], i), shape_.first);
        if (row >= 0 && row < shape_.rows)
          column[static_cast<size_t>(row)] +=
              read_element(type_, operands[0], i * shape_.width + j);
      }
      write_elements(sum_, operands[shape_.accumulate ? 3 : 2], j, shape_.width, shape_.rows,
                     column.data());
    }
  }

 private:
  Gather shape_;
  uint32_t type_, sum_;
};

class PlainOneHot {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_one_hot(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainOneHot(plait_device*, const plait_op_desc& d)
      : shape_(parse_one_hot(d)), type_(d.outputs[0].dtype) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto size = dtype_bytes(type_) * static_cast<uint64_t>(shape_.count * shape_.width);
    if (size) std::memset(operands[1], 0, size);
    for (int64_t i = 0; i < shape_.count; ++i) {
      const int64_t hot = read_index(shape_.index, operands[0], i);
      if (hot >= 0 && hot < shape_.width)
        write_element(type_, operands[1], i * shape_.width + hot, 1);
    }
  }

 private:
  Gather shape_;
  uint32_t type_;
};

}  // namespace

void add_plain_gather(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainGather>("plain", "gather", device, 0));
  out.push_back(kernel<PlainScatterAdd>("plain", "scatter_add", device, 0));
  out.push_back(kernel<PlainOneHot>("plain", "one_hot", device, 0));
}

}  // namespace plait::support

// group_rows, ungroup_rows, the products of groups, and their gradients: loops in double.
#include "kit/ops/grouped.hpp"

#include <algorithm>
#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/support/grouping.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainGroupRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = static_cast<uint64_t>(parse_group_rows(d).groups + 1) * sizeof(int32_t);
    why = "plain loops";
    return true;
  }
  PlainGroupRows(plait_device*, const plait_op_desc& d)
      : g_(parse_group_rows(d)), index_(d.inputs[1].dtype) {
    row_bytes_ = static_cast<int64_t>(dtype_bytes(d.inputs[0].dtype)) * g_.width;
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    auto* place = static_cast<int32_t*>(operands[3]);
    sort_into_groups(g_, index_, operands[1], place, static_cast<int32_t*>(operands[4]),
                     static_cast<int32_t*>(workspace));
    const auto* x = static_cast<const char*>(operands[0]);
    auto* rows = static_cast<char*>(operands[2]);
    for (int64_t i = 0; row_bytes_ > 0 && i < g_.tokens * g_.each; ++i)
      std::memcpy(rows + place[i] * row_bytes_, x + i / g_.each * row_bytes_,
                  static_cast<size_t>(row_bytes_));
  }

 private:
  GroupRows g_;
  uint32_t index_;
  int64_t row_bytes_;
};

class PlainUngroupRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(2 * parse_ungroup_rows(d).width);
    why = "plain loops in double";
    return true;
  }
  PlainUngroupRows(plait_device*, const plait_op_desc& d)
      : u_(parse_ungroup_rows(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* data, void* workspace) const {
    const Operands operands(types_, data);
    Scratch scratch(workspace);
    const auto sum = scratch.row(u_.width), row = scratch.row(u_.width);
    const size_t place = u_.weighted ? 2 : 1;
    for (int64_t n = 0; n < u_.tokens; ++n) {
      std::fill(sum.begin(), sum.end(), 0.0);
      for (int64_t i = n * u_.each; i < (n + 1) * u_.each; ++i) {
        const int64_t at = operands.index(place, i);
        if (at < 0 || at >= u_.tokens * u_.each) continue;
        operands.read(0, at * u_.width, row);
        const double weight = u_.weighted ? operands.get(1, i) : 1;
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += weight * row[c];
      }
      operands.write(place + 1, n * u_.width, sum);
    }
  }

 private:
  UngroupRows u_;
  std::vector<uint32_t> types_;
};

class PlainUngroupRowsGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(2 * parse_ungroup_rows_grad(d).width);
    why = "plain loops in double";
    return true;
  }
  PlainUngroupRowsGrad(plait_device*, const plait_op_desc& d)
      : u_(parse_ungroup_rows_grad(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* data, void* workspace) const {
    const Operands operands(types_, data);
    Scratch scratch(workspace);
    const auto dy = scratch.row(u_.width), row = scratch.row(u_.width);
    const int64_t rows = u_.tokens * u_.each;
    const size_t place = u_.weighted ? 3 : 1;
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t at = 0; at < rows; ++at) operands.write(place + 1, at * u_.width, row);
    for (int64_t i = 0; i < rows; ++i) {
      operands.read(0, i / u_.each * u_.width, dy);
      const int64_t at = operands.index(place, i);
      if (at < 0 || at >= rows) {
        if (u_.weighted) operands.set(place + 2, i, 0);
        continue;
      }
      if (!u_.weighted) {
        operands.write(place + 1, at * u_.width, dy);
        continue;
      }
      operands.read(1, at * u_.width, row);
      const double weight = operands.get(2, i);
      double dot = 0;
      for (size_t c = 0; c < dy.size(); ++c) {
        dot += row[c] * dy[c];
        row[c] = weight * dy[c];
      }
      operands.write(place + 1, at * u_.width, row);
      operands.set(place + 2, i, dot);
    }
  }

 private:
  UngroupRows u_;
  std::vector<uint32_t> types_;
};

class PlainGroupedMatmul {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const GroupedMatmul g = parse_grouped_matmul(d);
    choice.workspace = Scratch::bytes(g.inputs + 2 * g.outputs);
    why = "plain loops in double";
    return true;
  }
  PlainGroupedMatmul(plait_device*, const plait_op_desc& d)
      : g_(parse_grouped_matmul(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* data, void* workspace) const {
    const Operands operands(types_, data);
    Scratch scratch(workspace);
    const auto x = scratch.row(g_.inputs), sum = scratch.row(g_.outputs),
               b = scratch.row(g_.outputs);
    std::fill(sum.begin(), sum.end(), 0.0);
    int64_t next = 0;
    const auto zeros_up_to = [&](int64_t end) {
      for (; next < end; ++next) operands.write(3, next * g_.outputs, sum);
    };
    for (int64_t e = 0; e < g_.groups; ++e) {
      const RowRange range = rows_of_group(g_, e, [&](int64_t i) { return operands.index(2, i); });
      zeros_up_to(range.begin);
      for (int64_t r = std::max(next, range.begin); r < range.end; ++r) {
        std::fill(sum.begin(), sum.end(), 0.0);
        operands.read(0, r * g_.inputs, x);
        for (int64_t i = 0; i < g_.inputs; ++i) {
          const int64_t first = e * g_.inputs * g_.outputs + (g_.transpose_b ? i : i * g_.outputs);
          read_elements(types_[1], data[1], first, g_.transpose_b ? g_.inputs : 1, g_.outputs,
                        b.data());
          for (size_t o = 0; o < sum.size(); ++o) sum[o] += x[static_cast<size_t>(i)] * b[o];
        }
        operands.write(3, r * g_.outputs, sum);
      }
      next = std::max(next, range.end);
      std::fill(sum.begin(), sum.end(), 0.0);
    }
    zeros_up_to(g_.rows);
  }

 private:
  GroupedMatmul g_;
  std::vector<uint32_t> types_;
};

class PlainGroupedMatmulGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(2 * parse_grouped_matmul_grad(d).outputs);
    why = "plain loops in double";
    return true;
  }
  PlainGroupedMatmulGrad(plait_device*, const plait_op_desc& d)
      : g_(parse_grouped_matmul_grad(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* data, void* workspace) const {
    const Operands operands(types_, data);
    Scratch scratch(workspace);
    const auto sum = scratch.row(g_.outputs), b = scratch.row(g_.outputs);
    for (int64_t e = 0; e < g_.groups; ++e) {
      const RowRange range = rows_of_group(g_, e, [&](int64_t i) { return operands.index(2, i); });
      for (int64_t i = 0; i < g_.inputs; ++i) {
        std::fill(sum.begin(), sum.end(), 0.0);
        for (int64_t r = range.begin; r < range.end; ++r) {
          const double a = operands.get(0, r * g_.inputs + i);
          operands.read(1, r * g_.outputs, b);
          for (size_t o = 0; o < sum.size(); ++o) sum[o] += a * b[o];
        }
        operands.write(3, (e * g_.inputs + i) * g_.outputs, sum);
      }
    }
  }

 private:
  GroupedMatmul g_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_grouped(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainGroupRows>("plain", "group_rows", device, 0));
  out.push_back(kernel<PlainUngroupRows>("plain", "ungroup_rows", device, 0));
  out.push_back(kernel<PlainUngroupRowsGrad>("plain", "ungroup_rows_grad", device, 0));
  out.push_back(kernel<PlainGroupedMatmul>("plain", "grouped_matmul", device, 0));
  out.push_back(kernel<PlainGroupedMatmulGrad>("plain", "grouped_matmul_grad", device, 0));
}

}  // namespace plait::support

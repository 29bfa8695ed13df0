// npy, npz and safetensors: each value is one array (samples, shape of a sample).
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/field_statistics.hpp"
#include "bindings/cli/predictions/prediction_file.hpp"

namespace plait::cli {
namespace {

struct TypeNames {
  const char *dtype, *numpy, *safetensors;
};
// numpy has no bf16: such values are widened to f32, which is exact.
constexpr TypeNames kTypes[] = {
    {"f32", "<f4", "F32"}, {"f64", "<f8", "F64"}, {"f16", "<f2", "F16"}, {"bf16", "<f4", "BF16"},
    {"i32", "<i4", "I32"}, {"i64", "<i8", "I64"}, {"u8", "|u1", "U8"},   {"bool", "|b1", "BOOL"}};

const TypeNames& names_of(const std::string& dtype) {
  for (const TypeNames& one : kTypes)
    if (dtype == one.dtype) return one;
  throw CliError(kFailed, "[predict] values of type " + dtype + " are in no format; use csv");
}

template <class T>
void put(std::string& to, T value) {  // little-endian, as the formats and this machine are
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The begin of an .npy file, padded so that the numbers begin at a multiple of 64.
std::string npy_header(const PredictedValue& value, int64_t samples) {
  std::string shape = std::to_string(samples) + ",";
  for (const int64_t extent : value.shape) shape += " " + std::to_string(extent) + ",";
  if (!value.shape.empty()) shape.pop_back();
  std::string dict = std::string("{'descr': '") + names_of(value.dtype).numpy +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr size_t kBefore = 10;  // magic, version, length
  dict.append(63 - (kBefore + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  put(header, static_cast<uint16_t>(dict.size()));
  return header + dict;
}

uint64_t npy_row_bytes(const PredictedValue& value) {
  return value.dtype == "bf16" ? 2 * value.bytes : value.bytes;
}

// Rows as numpy can read them; `room` holds them where they had to be widened.
std::string_view npy_rows(const PredictedValue& value, std::string_view rows, std::string& room) {
  if (value.dtype != "bf16") return rows;
  room.clear();
  for (const double v : numbers_of("bf16", {rows.data(), rows.size()}))
    put(room, static_cast<float>(v));
  return room;
}

class NpyFile : public PredictionFile {
 public:
  NpyFile(WholeFile& file, const PredictedValue& value, int64_t samples)
      : file_(file), value_(value) {
    file_.write(npy_header(value_, samples));
  }
  void add(int64_t, std::span<const std::string_view> rows) override {
    file_.write(npy_rows(value_, rows[0], room_));
  }
  void resume(int64_t) override {}  // rows follow each other

 private:
  WholeFile& file_;
  const PredictedValue value_;
  std::string room_;
};

// A zip file of .npy files, stored as they are. Sizes are known before, checksums are not: these
// are filled in at the end. All sizes are in the form of zip64.
class NpzFile : public PredictionFile {
 public:
  NpzFile(WholeFile& file, const Values& values, int64_t samples) : file_(file) {
    uint64_t at = 0;
    for (const PredictedValue& value : values) {
      const std::string header = npy_header(value, samples);
      Member m{value,
               value.name + ".npy",
               at,
               0,
               header.size() + static_cast<uint64_t>(samples) * npy_row_bytes(value),
               0};
      const std::string local = local_header(m);
      m.next = at + local.size();
      m.crc = crc_of(0, header);
      file_.write_at(at, local + header);
      m.next += header.size();
      at += local.size() + m.size;
      members_.push_back(std::move(m));
    }
    end_ = at;
  }
  void add(int64_t, std::span<const std::string_view> rows) override {
    for (size_t i = 0; i < members_.size(); ++i) {
      Member& m = members_[i];
      const std::string_view bytes = npy_rows(m.value, rows[i], room_);
      file_.write_at(m.next, bytes);
      m.next += bytes.size();
      m.crc = crc_of(m.crc, bytes);
    }
  }
  void resume(int64_t samples) override {
    std::string some;
    for (Member& m : members_) {
      uint64_t left = static_cast<uint64_t>(samples) * npy_row_bytes(m.value);
      while (left > 0) {
        some.resize(std::min<uint64_t>(left, 1 << 20));
        file_.read_at(m.next, some.data(), some.size());
        m.crc = crc_of(m.crc, some);
        m.next += some.size();
        left -= some.size();
      }
    }
  }
  void finish() override {
    std::string directory;
    for (const Member& m : members_) {
      std::string crc;
      put(crc, m.crc);
      file_.write_at(m.begin + 14, crc);
      directory += directory_entry(m);
    }
    file_.write_at(end_, directory + end_record(directory.size()));
  }

 private:
  struct Member {
    PredictedValue value;
    std::string name;
    uint64_t begin, next;  // of its local header; of the next row
    uint64_t size;         // of the .npy file
    uint32_t crc;
  };
  static constexpr uint32_t kInExtra = 0xffffffff;  // a size that stands in the field of zip64

  static uint32_t crc_of(uint32_t before, std::string_view bytes) {
    return static_cast<uint32_t>(
        crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  }
  // version 4.5, UTF-8 name, stored, the first day that the format knows, checksum, sizes.
  static void put_common(std::string& to, const Member& m, uint16_t extra) {
    put<uint16_t>(to, 45);
    put<uint16_t>(to, 0x800);
    put<uint16_t>(to, 0);
    put<uint16_t>(to, 0);
    put<uint16_t>(to, 0x21);
    put<uint32_t>(to, m.crc);
    put<uint32_t>(to, kInExtra);
    put<uint32_t>(to, kInExtra);
    put<uint16_t>(to, static_cast<uint16_t>(m.name.size()));
    put<uint16_t>(to, extra);
  }
  static void put_sizes(std::string& to, const Member& m, uint16_t bytes) {
    put<uint16_t>(to, 1);
    put<uint16_t>(to, bytes);
    put<uint64_t>(to, m.size);
    put<uint64_t>(to, m.size);
  }
  static std::string local_header(const Member& m) {
    std::string to = "PK\x03\x04";
    put_common(to, m, 20);
    to += m.name;
    put_sizes(to, m, 16);
    return to;
  }
  static std::string directory_entry(const Member& m) {
    std::string to = "PK\x01\x02";
    put<uint16_t>(to, 45);
    put_common(to, m, 28);
    to.append(2 + 2 + 2 + 4, '\0');  // comment, disk, attributes
    put<uint32_t>(to, kInExtra);
    to += m.name;
    put_sizes(to, m, 24);
    put<uint64_t>(to, m.begin);
    return to;
  }
  std::string end_record(uint64_t directory) const {
    const uint64_t n = members_.size();
    std::string to = "PK\x06\x06";
    put<uint64_t>(to, 44);
    put<uint16_t>(to, 45);
    put<uint16_t>(to, 45);
    to.append(8, '\0');  // disks
    for (const uint64_t number : {n, n, directory, end_}) put(to, number);
    to += "PK\x06\x07";
    to.append(4, '\0');
    put<uint64_t>(to, end_ + directory);
    put<uint32_t>(to, 1);
    to += "PK\x05\x06";
    to.append(4, '\0');
    for (int i = 0; i < 2; ++i) put<uint16_t>(to, 0xffff);
    for (int i = 0; i < 2; ++i) put<uint32_t>(to, kInExtra);
    put<uint16_t>(to, 0);
    return to;
  }

  WholeFile& file_;
  std::vector<Member> members_;
  uint64_t end_ = 0;  // of the members
  std::string room_;
};

class SafetensorsFile : public PredictionFile {
 public:
  SafetensorsFile(WholeFile& file, const Values& values, int64_t samples) : file_(file) {
    Json header = Json::object(), classes = Json::object();
    uint64_t at = 0;
    for (const PredictedValue& value : values) {
      Json shape = Json::array({samples});
      for (const int64_t extent : value.shape) shape.push_back(extent);
      const uint64_t size = static_cast<uint64_t>(samples) * value.bytes;
      header[value.name] = {{"dtype", names_of(value.dtype).safetensors},
                            {"shape", shape},
                            {"data_offsets", {at, at + size}}};
      next_.push_back(at);
      row_bytes_.push_back(value.bytes);
      at += size;
      if (!value.classes.empty()) classes[value.name] = value.classes;
    }
    // The format has texts alone there.
    if (!classes.empty()) header["__metadata__"] = {{"classes", classes.dump()}};
    std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.append((8 - text.size() % 8) % 8, ' ');
    std::string head;
    put<uint64_t>(head, text.size());
    head += text;
    file_.write_at(0, head);
    for (uint64_t& next : next_) next += head.size();
  }
  void add(int64_t, std::span<const std::string_view> rows) override {
    for (size_t i = 0; i < next_.size(); ++i) {
      file_.write_at(next_[i], rows[i]);
      next_[i] += rows[i].size();
    }
  }
  void resume(int64_t samples) override {
    for (size_t i = 0; i < next_.size(); ++i)
      next_[i] += static_cast<uint64_t>(samples) * row_bytes_[i];
  }

 private:
  WholeFile& file_;
  std::vector<uint64_t> next_, row_bytes_;  // by value
};

}  // namespace

std::unique_ptr<PredictionFile> npy_file(WholeFile& file, const Values& values, int64_t samples) {
  if (values.size() != 1)
    throw CliError(kUsage, "[predict] an .npy file holds one value, " +
                               std::to_string(values.size()) +
                               " are asked for; choose one with --output, or write .npz");
  return std::make_unique<NpyFile>(file, values[0], samples);
}

std::unique_ptr<PredictionFile> npz_file(WholeFile& file, const Values& values, int64_t samples) {
  return std::make_unique<NpzFile>(file, values, samples);
}

std::unique_ptr<PredictionFile> safetensors_file(WholeFile& file, const Values& values,
                                                 int64_t samples) {
  return std::make_unique<SafetensorsFile>(file, values, samples);
}

}  // namespace plait::cli

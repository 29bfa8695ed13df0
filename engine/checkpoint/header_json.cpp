// The JSON of a header, read by a state machine over parser events: nothing is built that is not
// kept.
#include "engine/checkpoint/header_json.hpp"

#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/dtypes.hpp"

namespace plait::checkpoint {

namespace {

// The parser's position in the header.
enum class Place { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets, kEnd };
// The kind of value expected next.
enum class Want {
  kNothing,
  kTensorObject,
  kMetadataObject,
  kMetadataText,
  kDtype,
  kShape,
  kOffsets
};

class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(SafetensorsHeader& out) : out_(out) {}
  const std::string& problem() const { return problem_; }

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse("a number that is not a 64-bit integer");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& text) override;
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    return stop(strf("is not JSON at byte %zu (%s)", position, e.what()));
  }

 private:
  bool stop(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  bool refuse(const char* found) { return stop(where() + " holds " + found + expected()); }
  std::string where() const;
  const char* expected() const;
  bool tensor_key(const std::string& name);

  SafetensorsHeader& out_;
  Place place_ = Place::kStart;
  Want want_ = Want::kNothing;
  TensorEntry tensor_;
  std::string metadata_key_;
  bool has_metadata_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
  std::string problem_;
};

std::string HeaderEvents::where() const {
  switch (place_) {
    case Place::kStart:
    case Place::kRoot:
    case Place::kEnd:
      return want_ == Want::kTensorObject ? "tensor '" + printable(tensor_.name) + "'"
                                          : "the header";
    case Place::kMetadata:
      return "__metadata__ key '" + printable(metadata_key_) + "'";
    default:
      return "tensor '" + printable(tensor_.name) + "'";
  }
}

const char* HeaderEvents::expected() const {
  if (place_ == Place::kShape || place_ == Place::kOffsets) return ", expected whole numbers";
  switch (want_) {
    case Want::kTensorObject:
      return ", expected an object with dtype, shape and data_offsets";
    case Want::kMetadataObject:
      return ", expected __metadata__ to be an object";
    case Want::kMetadataText:
      return ", expected a text";
    case Want::kDtype:
      return ", expected dtype to be a text";
    case Want::kShape:
      return ", expected shape to be a list";
    case Want::kOffsets:
      return ", expected data_offsets to be a list of two";
    case Want::kNothing:
      break;
  }
  return ", expected an object";
}

bool HeaderEvents::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::kShape) {
    if (value > static_cast<uint64_t>(INT64_MAX))
      return stop(where() + strf(" has the extent %llu, expected less than 2^63",
                                 static_cast<unsigned long long>(value)));
    if (tensor_.shape.size() == kMaxFileRank)
      return stop(where() + strf(" has more than %zu dimensions", kMaxFileRank));
    tensor_.shape.push_back(static_cast<int64_t>(value));
    return true;
  }
  if (place_ == Place::kOffsets) {
    if (offsets_ == 2) return stop(where() + " has more than two data_offsets");
    (offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
    ++offsets_;
    return true;
  }
  return refuse("a number");
}

bool HeaderEvents::string(string_t& text) {
  if (place_ == Place::kMetadata && want_ == Want::kMetadataText) {
    out_.metadata.emplace_back(std::move(metadata_key_), std::move(text));
    want_ = Want::kNothing;
    return true;
  }
  if (place_ == Place::kTensor && want_ == Want::kDtype) {
    const DtypeInfo* fact = dtype_info(text);
    if (!fact)
      return stop(where() + " has the unknown dtype '" + printable(text.substr(0, 32)) + "'");
    tensor_.dtype_text = fact->name;
    tensor_.dtype = fact->dtype;
    want_ = Want::kNothing;
    return true;
  }
  return refuse("a text");
}

bool HeaderEvents::start_object(std::size_t) {
  if (place_ == Place::kStart) {
    place_ = Place::kRoot;
  } else if (place_ == Place::kRoot && want_ == Want::kMetadataObject) {
    place_ = Place::kMetadata;
  } else if (place_ == Place::kRoot && want_ == Want::kTensorObject) {
    place_ = Place::kTensor;
  } else {
    return refuse("an object");
  }
  want_ = Want::kNothing;
  return true;
}

bool HeaderEvents::key(string_t& name) {
  if (place_ == Place::kMetadata) {
    metadata_key_ = std::move(name);
    want_ = Want::kMetadataText;
    return true;
  }
  if (place_ == Place::kTensor) return tensor_key(name);
  if (name == "__metadata__") {
    if (has_metadata_) return stop("has __metadata__ twice");
    has_metadata_ = true;
    want_ = Want::kMetadataObject;
    return true;
  }
  if (name.size() > kMaxNameBytes)
    return stop(
        strf("has a tensor name of %zu bytes, expected at most %zu", name.size(), kMaxNameBytes));
  if (out_.tensors.size() == kMaxTensors)
    return stop(strf("has more than %zu tensors", kMaxTensors));
  tensor_ = TensorEntry();
  tensor_.name = std::move(name);
  has_dtype_ = has_shape_ = has_offsets_ = false;
  offsets_ = 0;
  want_ = Want::kTensorObject;
  return true;
}

bool HeaderEvents::tensor_key(const std::string& name) {
  bool* seen = nullptr;
  if (name == "dtype") {
    seen = &has_dtype_;
    want_ = Want::kDtype;
  } else if (name == "shape") {
    seen = &has_shape_;
    want_ = Want::kShape;
  } else if (name == "data_offsets") {
    seen = &has_offsets_;
    want_ = Want::kOffsets;
  } else {
    return stop(where() + " has the unknown key '" + printable(name.substr(0, 64)) + "'");
  }
  if (*seen) return stop(where() + " has '" + name + "' twice");
  *seen = true;
  return true;
}

bool HeaderEvents::end_object() {
  switch (place_) {
    case Place::kMetadata:
      place_ = Place::kRoot;
      return true;
    case Place::kTensor:
      if (!has_dtype_ || !has_shape_ || !has_offsets_)
        return stop(where() + " lacks " +
                    (!has_dtype_   ? "dtype"
                     : !has_shape_ ? "shape"
                                   : "data_offsets"));
      if (offsets_ != 2) return stop(where() + " has fewer than two data_offsets");
      out_.tensors.push_back(std::move(tensor_));
      place_ = Place::kRoot;
      return true;
    default:
      place_ = Place::kEnd;
      return true;
  }
}

bool HeaderEvents::start_array(std::size_t) {
  if (place_ == Place::kTensor && want_ == Want::kShape) {
    place_ = Place::kShape;
  } else if (place_ == Place::kTensor && want_ == Want::kOffsets) {
    place_ = Place::kOffsets;
  } else {
    return refuse("a list");
  }
  want_ = Want::kNothing;
  return true;
}

bool HeaderEvents::end_array() {
  place_ = Place::kTensor;
  return true;
}

}  // namespace

void read_header_json(std::string_view text, SafetensorsHeader& out, const std::string& where) {
  HeaderEvents events(out);
  bool good = false;
  try {
    good = nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  } catch (const nlohmann::json::exception& e) {
    fail_data("[safetensors] " + where + ": the header is not JSON (" + e.what() + ")");
  }
  if (good) return;
  // Some problems name the tensor; others need "the header" as subject.
  std::string problem = events.problem().empty() ? "is not JSON" : events.problem();
  if (starts_with(problem, "is ") || starts_with(problem, "has "))
    problem = "the header " + problem;
  fail_data("[safetensors] " + where + ": " + problem +
            "; check that the file is complete and a safetensors file");
}

}  // namespace plait::checkpoint

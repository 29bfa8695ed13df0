// Descriptors of the emulated cuDNN: attributes by name, checked against a table when they are set
// and when a descriptor is finalized.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emulator/cudnn/program.hpp"

namespace emulated_dnn {

constexpr Status kBad = 2000, kNotFinal = 2004, kWrongType = 2010, kUnsupported = 3001,
                 kFailed = 5000;

struct Value {
  Type type{};
  int64_t count = 0;
  std::vector<unsigned char> bytes;
};

struct Object {
  Kind kind{};
  bool complete = false;
  std::map<Attribute, Value> values;
  std::shared_ptr<const Program> program;  // of a graph and what is made of it
  int64_t engine = -1;                     // of an engine, a configuration and a plan

  template <class T>
  T get(Attribute name, int64_t i = 0, T otherwise = {}) const {
    const auto found = values.find(name);
    if (found == values.end()) return otherwise;
    T out;
    std::memcpy(&out, found->second.bytes.data() + static_cast<size_t>(i) * sizeof out, sizeof out);
    return out;
  }
  int64_t count(Attribute name) const {
    const auto found = values.find(name);
    return found == values.end() ? 0 : found->second.count;
  }
};

// The objects that exist. Functions of the library hold the lock of cudnn.cpp.
Object* find(Descriptor d);
Descriptor create(Kind kind);  // nullptr: no such kind
bool destroy(Descriptor d);
size_t count_objects();

uint64_t size_of(Type type);  // bytes of a value
Status set(Object& o, Attribute name, Type type, int64_t count, const void* values);
// Whether all is there that the kind needs, and fits; a graph gets its program.
Status complete(Object& o);

// Why the last call failed.
extern std::string last_error;

}  // namespace emulated_dnn

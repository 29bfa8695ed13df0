// The parameters of one adapter in files: a checkpoint, weights, or files by the map of a format.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/tensor_map.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/plan/layout.hpp"
#include "engine/session/adapter_record.hpp"
#include "engine/session/base_weights.hpp"
#include "engine/session/session_context.hpp"

namespace plait::session {

struct AdapterSource {
  std::string path;  // of a checkpoint or of weights, or how messages call what `map` names
  std::string from;  // the adapter's name there; "": its own, or that of the only one
  std::optional<checkpoint::TensorMap> map;  // of a format: places in files, `weights`
  std::vector<RecordedAdapter> recorded;     // by that format
};

using MakeSource = std::function<AdapterSource()>;

// Part of a call that all ranks make. An error of opening is an error of all ranks.
class AdapterFiles {
 public:
  AdapterFiles(SessionContext& context, BaseWeights& bases, const AdapterSource& source);

  // What this rank holds of the adapter's parameters. Nothing of the session changes.
  // Errors: PLAIT_ERR_NOT_FOUND, PLAIT_ERR_DATA, PLAIT_ERR_CONFIG as plait_session_load_adapter().
  using Block = std::pair<plan::LocalBlock, std::vector<char>>;
  std::vector<Block> read(const config::ModelConfig& model, const std::string& adapter) const;

 private:
  std::string find(const std::string& parameter, const std::string& model) const;  // "": none
  std::vector<std::string> names() const;
  std::string name_there(const config::ModelConfig& model, const std::string& adapter) const;
  void check_record(const config::ModelConfig& model, const std::string& adapter,
                    const std::string& there) const;
  void check_all_read(const config::ModelConfig& model, const std::string& adapter,
                      const std::string& there) const;
  void check_shape(const plan::Parameter& p, const std::string& stored) const;
  void read_block(const plan::Parameter& p, const std::string& stored,
                  const plan::LocalBlock& block, std::vector<char>& to) const;

  SessionContext& c_;
  BaseWeights& bases_;
  const AdapterSource& source_;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;  // one of the two
  std::unique_ptr<checkpoint::Weights> weights_;
  std::vector<RecordedAdapter> recorded_;
};

}  // namespace plait::session

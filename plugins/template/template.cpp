// template: the null plugin. It loads, passes every check of the engine and offers one item of each
// kind; each item answers "unimplemented". Copy the folder, keep the kinds you need, replace the
// names (README.md has the list).
#include "plugins/template/template.hpp"

PLAIT_PLUGIN("template", "0.1.0", "Apache-2.0",
             "The null plugin: one item of each kind, all unimplemented") {
  plait::null::add_model_items(host);
  plait::null::add_train_items(host);
  plait::null::add_op_and_kernel(host);
  plait::null::add_device(host);
  plait::null::add_comm(host);
}

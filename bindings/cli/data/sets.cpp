#include "bindings/cli/data/sets.hpp"

namespace plait::cli {
namespace {

constexpr SetFile kMnist[] = {
    {"train-images-idx3-ubyte.gz", 47040016,
     "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte.gz", 60008,
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte.gz", 7840016,
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte.gz", 10008,
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
};
constexpr const char* kMnistMirrors[] = {
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
};

constexpr SetFile kFashion[] = {
    {"train-images-idx3-ubyte.gz", 47040016,
     "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
    {"train-labels-idx1-ubyte.gz", 60008,
     "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
    {"t10k-images-idx3-ubyte.gz", 7840016,
     "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
    {"t10k-labels-idx1-ubyte.gz", 10008,
     "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
};
constexpr const char* kFashionMirrors[] = {
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
};

constexpr SetFile kShakespeare[] = {
    {"input.txt", 1115394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
};
constexpr const char* kShakespeareMirrors[] = {
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
};

constexpr DataSet kSets[] = {
    {"mnist", "70,000 handwritten digits, 28x28", "Y. LeCun and C. Cortes; CC BY-SA 3.0", kMnist,
     kMnistMirrors},
    {"fashion-mnist",
     "70,000 pictures of clothes, 28x28; also Debian's package dataset-fashion-mnist",
     "Zalando SE; MIT", kFashion, kFashionMirrors},
    {"tinyshakespeare", "1.1 MB of plays as one text", "public domain", kShakespeare,
     kShakespeareMirrors},
};

}  // namespace

std::span<const DataSet> data_sets() { return kSets; }

const DataSet* find_data_set(std::string_view name) {
  for (const DataSet& one : kSets)
    if (name == one.name) return &one;
  return nullptr;
}

}  // namespace plait::cli

# demo: train the MNIST perceptron and print its test accuracy. Sourced by ./dev.
demo_files=(train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte)

# has_mnist <folder>: whether it has all four files, packed or not.
has_mnist() {
  local name
  for name in "${demo_files[@]}"; do
    [ -f "$1/$name.gz" ] || [ -f "$1/$name" ] || return 1
  done
}

# Sets demo_data to the first folder with the images: $PLAIT_DATA, the tree's data/, a data folder
# beside the checkout; empty if none has them.
find_data() {
  local folder
  demo_data=
  if [ -n "${PLAIT_DATA:-}" ]; then
    for folder in "$PLAIT_DATA" "$PLAIT_DATA/mnist"; do
      if has_mnist "$folder"; then demo_data=$folder; return; fi
    done
    stop 3 "PLAIT_DATA is '$PLAIT_DATA', but there is no ${demo_files[0]}.gz in it nor in its mnist/" \
      "point PLAIT_DATA at a folder with the four MNIST files, or unset it"
  fi
  for folder in data/mnist ../data/mnist ../shared/data/mnist; do
    if has_mnist "$folder"; then demo_data=$folder; return; fi
  done
}

# Sets demo_data to a download; if that fails, to Debian's package of Fashion-MNIST.
fetch_data() {
  say "downloading MNIST into data/mnist"
  if build/release/bin/plait data get mnist --data data </dev/null >"$log_dir/data.log" 2>&1 && has_mnist data/mnist; then
    demo_data=data/mnist
    return
  fi
  say "MNIST could not be downloaded ($(tail -n 1 "$log_dir/data.log" | cut -c1-160))"
  say "so this demo trains on Fashion-MNIST (Debian's dataset-fashion-mnist): the same shapes, a harder task, lower accuracy"
  need_packages data
  demo_data=/usr/share/datasets/fashion-mnist
  has_mnist "$demo_data" || stop 3 "$demo_data has no images" "reinstall the package dataset-fashion-mnist"
}

demo() {
  find_data
  need_packages core
  build release
  [ -n "$demo_data" ] || fetch_data
  say "training examples/mnist_mlp on the images in $demo_data"
  PLAIT_DATA=$(cd "$demo_data" && pwd) build/release/bin/plait run examples/mnist_mlp/experiment.toml "$@" </dev/null ||
    stop 1 "the training failed; its message is above" "build/release/bin/plait check examples/mnist_mlp/experiment.toml"
}

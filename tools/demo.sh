# demo: train the MNIST perceptron and print its test accuracy; train a language model of characters and
# print what it writes. Sourced by ./dev.
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

# Sets demo_text to the folder with input.txt of tinyshakespeare: the tree's data/, a data folder
# beside the checkout, or a download; empty if there is none.
find_text() {
  local folder
  demo_text=
  for folder in "${PLAIT_DATA:-}/tinyshakespeare" data/tinyshakespeare ../data/tinyshakespeare ../shared/data/tinyshakespeare; do
    if [ -f "$folder/input.txt" ]; then demo_text=$(cd "$folder" && pwd); return; fi
  done
  say "downloading tinyshakespeare into data/tinyshakespeare"
  if build/release/bin/plait data get tinyshakespeare --data data </dev/null >"$log_dir/text.log" 2>&1; then
    demo_text=$root/data/tinyshakespeare
  else
    say "it could not be downloaded ($(tail -n 1 "$log_dir/text.log" | cut -c1-160)), so no language model is trained"
  fi
}

# The steps of examples/shakespeare that two cores make in two to four minutes.
demo_steps=600

demo_characters() {
  local plait=build/release/bin/plait run=build/demo/shakespeare
  find_text
  [ -n "$demo_text" ] || return 0
  say "training examples/shakespeare for $demo_steps of its steps, then writing"
  rm -rf build/demo && mkdir -p build/demo
  "$plait" data tokenize "$demo_text/input.txt" --tokenizer chars --option path="$demo_text/input.txt" \
    --out build/demo/shakespeare --yes </dev/null >"$log_dir/tokenize.log" 2>&1 ||
    stop 1 "the text could not be tokenized" "see ${log_dir#"$root"/}/tokenize.log"
  "$plait" run examples/shakespeare --data build/demo --run-dir "$run" run.steps=$demo_steps evaluate.every=0 \
    evaluate.batches=20 tokenizer.path="$demo_text/input.txt" </dev/null ||
    stop 1 "the training of characters failed; its message is above" "$plait check examples/shakespeare"
  "$plait" generate examples/shakespeare --data build/demo --checkpoint "$run" --prompt "ROMEO:" --max-tokens 120 \
    --temperature 0.8 tokenizer.path="$demo_text/input.txt" </dev/null ||
    stop 1 "the model could not write; its message is above"
}

demo() {
  find_data
  need_packages core
  build release
  [ -n "$demo_data" ] || fetch_data
  say "training examples/mnist_mlp on the images in $demo_data"
  PLAIT_DATA=$(cd "$demo_data" && pwd) build/release/bin/plait run examples/mnist_mlp/experiment.toml "$@" </dev/null ||
    stop 1 "the training failed; its message is above" "build/release/bin/plait check examples/mnist_mlp/experiment.toml"
  demo_characters
}

#!/usr/bin/env bash
# fresh-debian.sh FOLDER [DATA]: tests the two commands of the README on a new Debian system.
#
# Creates a minimal Debian 12 root in FOLDER (which must not exist; 4 GB) with a clone of this tree's
# HEAD and, beside the clone, DATA, a folder with the MNIST files, if given. Then runs ./dev test and
# ./dev demo inside, without a terminal. Needs root and debootstrap. FOLDER is kept for inspection;
# delete it afterwards.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-}
data=${2:-}
fail() { echo "fresh-debian: $*" >&2; exit 3; }
[ -n "$folder" ] || fail "usage: tools/fresh-debian.sh FOLDER [DATA]"
[ ! -e "$folder" ] || fail "$folder exists; name a folder that does not"
[ "$(id -u)" = 0 ] || fail "needs root, for chroot"
command -v debootstrap >/dev/null || fail "needs debootstrap: apt-get install debootstrap"

# The mirror that this machine uses.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 2>/dev/null | awk '$2 == "bookworm" { print $1; exit }')
mirror=${mirror:-http://deb.debian.org/debian}

mkdir -p "$(dirname "$folder")"
debootstrap --variant=minbase --include=git,ca-certificates bookworm "$folder" "$mirror" >"$folder.log" 2>&1 ||
  { tail -20 "$folder.log" >&2; fail "debootstrap failed; all of it in $folder.log"; }
# This machine's access to its mirror (name servers, proxies) also applies inside.
cp -L /etc/resolv.conf "$folder/etc/resolv.conf" 2>/dev/null || true
apt-config dump | grep -E '^Acquire::(http|https)::[^ ]*Proxy' >"$folder/etc/apt/apt.conf.d/90proxy" || true

mkdir -p "$folder/home/user"
git clone -q --no-hardlinks "$root" "$folder/home/user/plait"
if [ -n "$data" ]; then
  mkdir -p "$folder/home/user/data"
  cp -rL "$data" "$folder/home/user/data/mnist"
fi

mount -t proc proc "$folder/proc"
mount -t tmpfs tmpfs "$folder/dev/shm" 2>/dev/null || true
trap 'umount "$folder/dev/shm" 2>/dev/null || true; umount "$folder/proc"' EXIT
inside() { # an empty environment and no terminal, like on a CI machine
  chroot "$folder" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=true \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash -c 'cd /home/user/plait && "$@"' - "$@" </dev/null
}

for verb in test demo; do
  started=$SECONDS
  inside ./dev "$verb" || fail "./dev $verb failed in $folder after $((SECONDS - started)) s"
  echo "fresh-debian: ./dev $verb passed in $((SECONDS - started)) s"
done

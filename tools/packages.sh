# need_packages <group>...: makes sure that the Debian packages of these groups are installed. Sourced by ./dev.
# Installs missing ones if permitted (root, or sudo without a password); else prints the command and
# exits with 3.

packages_of() {
  local group
  for group in "$@"; do
    awk -v g="$group" '$1 == g { print $2 }' "$root/tools/packages.txt"
  done | sort -u
}

missing_packages() {
  local package
  for package in $(packages_of "$@"); do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

need_packages() {
  if ! command -v dpkg-query >/dev/null; then
    [ -n "${PLAIT_NO_APT:-}" ] ||
      say "this is not a Debian system; install the equivalents of: $(packages_of "$@" | paste -sd' ')"
    return 0
  fi
  local missing as_root=()
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
    if ! sudo -n true 2>/dev/null; then
      if [ -t 0 ] && command -v sudo >/dev/null; then
        say "sudo will ask for your password to install: ${missing//$'\n'/ }"
      else
        stop 3 "these Debian packages are missing, and this user may not install them." \
          "run as root:  apt-get update && apt-get install --no-install-recommends ${missing//$'\n'/ }"
      fi
    fi
  fi
  say "installing $(echo "$missing" | wc -l) Debian packages: ${missing//$'\n'/ }"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  # The lists may be outdated or missing: refresh them once, and only before an installation.
  logged apt "the package lists could not be refreshed; is the network up?" "${apt[@]}" update
  # shellcheck disable=SC2086
  logged apt "the packages could not be installed" \
    "${apt[@]}" install -y --no-install-recommends $missing
}

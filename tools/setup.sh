#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that `make run`, `make test` or `make bench` need: only what is missing,
# and only as root; anyone else is told what to install.
set -eu

required="gcc libc6-dev cmake ninja-build pkg-config libpopt-dev libjansson-dev libzip-dev"
case ${1:-} in
run) optional="" ;;
# What these are for is skipped, by name, where they are missing.
test) optional="g++ clang clang-format clang-tidy cppcheck binutils libcmocka-dev libmpfr-dev scdoc" ;;
bench) optional="libopenblas-dev python3-venv" ;;
*)
  echo "usage: $0 run|test|bench" >&2
  exit 2
  ;;
esac

# missing PACKAGES... prints those that are not installed.
missing() {
  for package; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
      printf '%s ' "$package"
  done
}

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; the packages needed are called there: $required $optional"
  exit 0
fi

need=$(missing $required)
want=$(missing $optional)
[ -n "$need$want" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "setup: please install, as root: apt-get install $need$want" >&2
  [ -z "$need" ] # without the optional ones the work can go on
  exit
fi

echo "setup: installing $need$want"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh machine may be absent or old.
if ! { apt-get -q update && apt-get -q install -y --no-install-recommends $need $want; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  [ -z "$need" ] || [ -z "$(missing $required)" ] || exit 1
  echo "setup: going on without some of: $want" >&2
fi

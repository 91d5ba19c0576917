#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BENCH_CPU LIBRARY COMMAND, from the root of the tree: measures this machine into bench/results/,
# and then peers with the Python that PYTHON names, or else with one in build/bench-venv, which is made
# once. A part that is not there is left out, by name.
set -eu
bench_cpu=$1 library=$2 command=$3
venv=build/bench-venv

# Asked here and not at configuration, which does not run again for each commit.
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
[ -x "$command" ] && set -- --command "$command" || set --
"$bench_cpu" --commit "$commit" "$@"

if [ -z "${PYTHON:-}" ]; then
  PYTHON=$venv/bin/python
  if ! "$PYTHON" -c 'import numpy, xsum' 2>/dev/null; then
    { /usr/bin/python3 -m venv $venv &&
      "$PYTHON" -m pip install -q --retries 1 -r bench/requirements.txt; } >&2 ||
      echo "left out: peers that cannot be installed" >&2
  fi
fi
if [ -e "$library" ] && command -v "$PYTHON" >/dev/null; then
  exec "$PYTHON" bench/peers.py "$library"
fi
echo "left out: numpy, xsum and fsum (no shared library, or no $PYTHON)"

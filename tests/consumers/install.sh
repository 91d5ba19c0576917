#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the build in $BUILD into $PREFIX, and again below a DESTDIR; both must be the same files, and
# those of the list.
set -eu

rm -rf "$PREFIX" "$WORK/destdir"
mkdir -p "$WORK"
"$CMAKE" --install "$BUILD" --prefix "$PREFIX" >"$WORK/install.log"
DESTDIR="$WORK/destdir" "$CMAKE" --install "$BUILD" --prefix /opt/sumac >>"$WORK/install.log"

diff -r "$PREFIX" "$WORK/destdir/opt/sumac"
[ "$(ls "$WORK/destdir")" = opt ]

(cd "$PREFIX" && find . ! -type d) | sed "s|/${LIBDIR#"$PREFIX"/}/|/LIB/|; s|^\./||" | grep -v '^share/man/' |
  sort >"$WORK/installed" # a manual page needs scdoc, which is not everywhere
sed "s/VERSION/$VERSION/; s/SO/${VERSION%.*}/; /^#/d" "$SOURCE/installed.txt" | sort >"$WORK/expected"
diff "$WORK/expected" "$WORK/installed"

# Nothing installed may know where it was built.
if grep -rlF -e "$BUILD" -e "${SOURCE%/tests/consumers}" "$PREFIX"; then exit 1; fi

#!/bin/sh
# Installs what inalab needs: system packages where they are missing (as root, on Debian), then a virtual environment
# with the versions of requirements.lock. Run by `make setup`; running it again is harmless. BROWSER=1: Chromium and tshark, too.
set -eu
PATH=$PATH:/usr/sbin:/sbin # where ip and tc are, and an ordinary user does not search
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
MININET=${MININET:-/usr/lib/python3/dist-packages/mininet} # the package index has only a pre-release of 2.3.0

fail() {
    echo "inalab setup: $*" >&2
    exit 1
}

# tool:package pairs; a package is only asked for when its tool is missing
optional=
[ "${BROWSER:-0}" = 1 ] && optional="chromium:chromium tshark:tshark" # the tests open the report and captures in them
missing=
for pair in mnexec:mininet ping:iputils-ping ethtool:ethtool ip:iproute2 tc:iproute2 cc:gcc bwrap:bubblewrap "$PYTHON:python3" $optional; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -d "$MININET" ] || missing="$missing mininet"
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
if command -v "$PYTHON" >/dev/null 2>&1; then
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
else
    missing="$missing python3-venv"
fi

if [ -n "$missing" ]; then
    missing=$(echo "$missing" | tr ' ' '\n' | sort -u | tr '\n' ' ')
    command -v apt-get >/dev/null 2>&1 || fail "these are missing, and there is no apt-get to install them: $missing"
    [ "$(id -u)" = 0 ] || fail "packages are missing; install them with: sudo apt-get install --no-install-recommends $missing"
    echo "installing system packages: $missing"
    log=$(mktemp)
    # shellcheck disable=SC2086  # a list of packages
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        rm -f "$log"
        fail "apt-get could not install: $missing"
    }
    rm -f "$log"
fi

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed; name one with PYTHON=..."
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV" || fail "no virtual environment could be made in $VENV"
echo "installing Python packages into $VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.lock || fail "the packages of requirements.lock could not be installed"
[ -d "$MININET" ] || fail "there is no Mininet in $MININET; name the folder of its Python module with MININET=..."
packages=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
ln -sfn "$MININET" "$packages/mininet"
ln -sfn "$PWD/switches/p4runtime/p4tmp" "$packages/p4/tmp" # controllers of p4lang/tutorials import it
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . || fail "inalab itself could not be installed"
echo "compiling the hosts' loops"
"$VENV/bin/python" -c 'from hosts.compiled import compile_all; compile_all()' || fail "the hosts' loops could not be compiled"

#!/bin/sh
# Installs what inalab needs: system packages where they are missing (as root, on Debian), then a virtual environment
# with the versions of requirements.lock. Run by `make setup`; running it again is harmless.
# EXTRAS=1: what tests, campaigns over machines and P4Runtime need, too. BROWSER=1: Chromium and tshark for tests.
set -eu
PATH=$PATH:/usr/sbin:/sbin # where ip and tc are, and an ordinary user does not search
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
MININET=${MININET:-/usr/lib/python3/dist-packages/mininet} # the package index has only a pre-release of 2.3.0

fail() {
    echo "inalab setup: $*" >&2
    exit 1
}
[ -d inalab/hosts ] || fail "inalab/hosts is no link to a folder: clone with git clone -c core.symlinks=true"

# tool:package pairs; a package is only asked for when its tool is missing
optional=
[ "${BROWSER:-0}" = 1 ] && optional="chromium:chromium tshark:tshark" # the tests open the report and captures in them
missing=
for pair in mnexec:mininet ping:iputils-ping ethtool:ethtool ip:iproute2 tc:iproute2 bwrap:bubblewrap; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -d "$MININET" ] || missing="$missing mininet"
if [ -n "$missing" ] && ! { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }; then
    missing=$(echo "$missing" | tr ' ' '\n' | sort -u | tr '\n' ' ')
    echo "inalab setup: trials run in virtual time alone until this is done: sudo apt-get install --no-install-recommends $missing"
    missing=
fi
for pair in cc:gcc "$PYTHON:python3" $optional; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
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

# uv takes a quarter of pip's time, and the indexes that pip is configured for; where there is no uv, or it fails, pip installs
# all the same.
pip() {
    "$VENV/bin/python" -m pip "$@" --quiet --disable-pip-version-check
}
configured() { # the values that pip has for an option, each once
    "$VENV/bin/python" -m pip config list 2>/dev/null | sed -n "s/^[^=]*\.$1='\(.*\)'\$/\1/p" | tr ' ' '\n' | awk '!seen[$0]++'
}
install() {
    if [ -n "$UV" ]; then
        "$UV" pip install --quiet --python "$VENV/bin/python" "$@" && return
        echo "inalab setup: uv could not install that; trying pip"
    fi
    pip install "$@"
}

UV=$(command -v uv || true)
if [ -z "$UV" ]; then
    [ -x "$VENV/bin/uv" ] || pip install "$(grep '^uv==' requirements.lock)" || true
    [ ! -x "$VENV/bin/uv" ] || UV=$VENV/bin/uv
fi
index=$(configured index-url) extra=$(configured extra-index-url) links=$(configured find-links)
[ -z "$index" ] || export UV_DEFAULT_INDEX="$(echo "$index" | head -n 1)"
[ -z "$extra" ] || UV_EXTRA_INDEX_URL=$(echo "$extra" | tr '\n' ' ')
[ -z "$links" ] || UV_FIND_LINKS=$(echo "$links" | paste -sd ,)
export UV_EXTRA_INDEX_URL UV_FIND_LINKS
export UV_INDEX_STRATEGY=unsafe-best-match UV_PYTHON_DOWNLOADS=never # as pip does

echo "installing Python packages into $VENV"
if [ "${EXTRAS:-0}" = 1 ]; then
    install -r requirements.lock -r requirements-extras.lock || fail "the packages of requirements.lock and requirements-extras.lock could not be installed"
    install --target "$VENV/torchft" --no-deps -r requirements-torchft.lock || echo "inalab setup: torchft could not be installed: its tests are skipped"
else
    install -r requirements.lock || fail "the packages of requirements.lock could not be installed"
fi
[ -d "$MININET" ] || fail "there is no Mininet in $MININET; name the folder of its Python module with MININET=..."
packages=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
ln -sfn "$MININET" "$packages/mininet"
[ ! -d "$packages/p4" ] || ln -sfn "$PWD/switches/p4runtime/p4tmp" "$packages/p4/tmp" # controllers of p4lang/tutorials import it
install --no-deps --no-build-isolation -e . || fail "inalab itself could not be installed"
"$VENV/bin/python" -c 'from inalab.hosts.cores import CORES; CORES.build()' || fail "the hosts' cores could not be built"

#!/bin/sh
# Makes a Debian or Ubuntu machine ready for inalab: BMv2 and p4c where p4lang publishes packages for it, P4-utils, and the
# set-up of this repository. Run by `vagrant up`, or by hand as root: sh provision.sh [REPOSITORY]. Running it again is
# harmless, and tries again what was missing. What it decides is kept in /etc/inalab.mk, which the Makefile reads.
set -eu
REPOSITORY=$(cd "${1:-$(dirname "$0")}" && pwd)
VENV=${VENV:-/opt/inalab} # not in the repository: that may be shared with another machine
P4LANG=${P4LANG:-https://download.opensuse.org/repositories/home:/p4lang}
LIST=/etc/apt/sources.list.d/p4lang.list
KEY=/usr/share/keyrings/p4lang.gpg
export DEBIAN_FRONTEND=noninteractive

say() { echo "inalab provision: $*"; }

fail() {
    say "$*" >&2
    exit 1
}

install() {
    apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        return 1
    }
}

# The packages of p4lang's own repository for this very distribution.
install_bmv2() {
    command -v simple_switch >/dev/null && command -v p4c >/dev/null && return 0
    case "$ID" in
        ubuntu) distribution="xUbuntu_$VERSION_ID" ;;
        debian) distribution="Debian_$VERSION_ID" ;;
        *) return 1 ;;
    esac
    curl -fsSL --retry 2 --max-time 60 "$P4LANG/$distribution/Release.key" >"$log.key" 2>/dev/null || return 1
    gpg --batch --yes --dearmor -o "$KEY" "$log.key" 2>/dev/null || return 1
    echo "deb [signed-by=$KEY] $P4LANG/$distribution/ /" >"$LIST"
    if apt-get update >"$log" 2>&1 && install p4lang-bmv2 p4lang-p4c; then return 0; fi
    rm -f "$LIST" "$KEY" # a repository without packages for this machine would fail every later update
    apt-get update >"$log" 2>&1 || true
    return 1
}

install_p4utils() {
    source=${P4UTILS:-$("$VENV/bin/python" -c 'from inalab.switches.bmv2.installation import P4UTILS; print(P4UTILS)')}
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$source" >"$log" 2>&1 || return 1
    (cd "$REPOSITORY" && "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[bmv2]') >"$log" 2>&1
}

[ "$(id -u)" = 0 ] || fail "run it as root"
command -v apt-get >/dev/null || fail "this machine has no apt-get: see README.md for what inalab needs"
log=$(mktemp)
trap 'rm -f "$log" "$log.key"' EXIT
# shellcheck disable=SC1091  # the machine's own
. /etc/os-release

say "system packages"
apt-get update >"$log" 2>&1 || fail "apt-get update failed: $(tail -n 1 "$log")"
install ca-certificates curl git gnupg make python3 || fail "system packages could not be installed"
PYTHON=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    install python3.11 python3.11-venv || fail "Python 3.11 could not be installed"
    PYTHON=python3.11
fi

say "BMv2 and p4c"
bmv2=yes
install_bmv2 || bmv2="p4lang has no packages of BMv2 and p4c for $ID $VERSION_ID on $(dpkg --print-architecture), or they cannot be reached"

say "Soft-RoCE"
if install rdma-core ibverbs-providers python3-pyverbs && modprobe rdma_rxe 2>"$log"; then
    echo rdma_rxe >/etc/modules-load.d/inalab.conf
else
    say "not here: $(tail -n 1 "$log"). Scheme switchml-rdma makes its packets itself."
fi

say "Python environment in $VENV"
make -C "$REPOSITORY" setup PYTHON="$PYTHON" VENV="$VENV" || fail "make setup failed"

if [ "$bmv2" = yes ]; then
    cd "$REPOSITORY"
    install_p4utils || bmv2="P4-utils could not be installed: $(tail -n 1 "$log")"
fi
target=embedded
if [ "$bmv2" = yes ]; then
    target=bmv2
    "$VENV/bin/inalab" doctor | grep -q '^target bmv2 can run' || {
        target=embedded
        bmv2=$("$VENV/bin/inalab" doctor | grep '^target bmv2')
    }
fi
printf '# Written by provision.sh: what make does on this machine where it is not told otherwise.\n' >/etc/inalab.mk
printf 'PYTHON ?= %s\nVENV ?= %s\n' "$PYTHON" "$VENV" >>/etc/inalab.mk
[ "$target" = embedded ] || printf 'TARGET ?= %s\n' "$target" >>/etc/inalab.mk # else an experiment may have its own
[ "$bmv2" = yes ] || say "$bmv2. This machine runs the embedded switch."
say "ready: sudo make -C $REPOSITORY experiment runs on target $target"

#!/bin/sh
# Installs Debian packages that tests and the demonstration use, and says so first.
#
#     system_packages.sh PURPOSE PACKAGE...
#
# Nothing happens where all of them are installed. Packages that are missing are named before apt-get is called. Where
# apt-get would have to remove a package for them (an installed MySQL server makes way for MariaDB's), nothing is
# installed and the exit code is 3. HEADRACE_SYSTEM_PACKAGES=no installs nothing: tests then say what they lack.
set -eu
purpose=$1
shift

missing=""
for package in "$@"; do
    state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "${HEADRACE_SYSTEM_PACKAGES:-yes}" = no ]; then
    echo "note: not installed, because of HEADRACE_SYSTEM_PACKAGES=no:$missing. Tests that need them are skipped by name." >&2
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "note: there is no apt-get here. Please install, $purpose:$missing. Tests that need them are skipped by name." >&2
    exit 0
fi

as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
echo "Will be installed on this system with apt-get, $purpose:$missing"
$as_root apt-get update -qq
# What apt-get would do is asked of apt-get itself; it prints one line "Remv NAME ..." for each package that would go.
# shellcheck disable=SC2086
if ! trial=$(LC_ALL=C $as_root apt-get --simulate --quiet install $missing 2>&1); then
    echo "error: apt-get cannot install$missing:" >&2
    echo "$trial" | grep '^ \|^E:' >&2 || echo "$trial" | tail -5 >&2
    echo "Correct that, or run again with HEADRACE_SYSTEM_PACKAGES=no: what needs them is then skipped by name." >&2
    exit 3
fi
removed=$(echo "$trial" | sed -n 's/^Remv \([^ ]*\).*/\1/p' | tr '\n' ' ')
if [ -n "$removed" ]; then
    echo "error: apt-get would remove ${removed}for that. Nothing was installed." >&2
    echo "Use another machine or a container (see README, Install), or run again with HEADRACE_SYSTEM_PACKAGES=no." >&2
    exit 3
fi
# A server that this installs is not started (RUNLEVEL=1): tests start their own.
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq $missing >/dev/null

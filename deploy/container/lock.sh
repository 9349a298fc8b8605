#!/bin/sh
# Write the lock files of the image: exact versions with hashes of what the wheel's extras need. Needs uv.
#   sh deploy/container/lock.sh
set -eu
cd "$(dirname "$0")/../.."
lock() {
    file=$1
    shift
    uv pip compile "$@" --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
        --no-emit-index-url --no-emit-find-links --quiet --output-file "deploy/container/$file"
}
# What builds the wheel, and packages that come as source only.
printf 'hatchling\nsetuptools\nwheel\n' | lock requirements-build.txt -
lock requirements-broker.txt pyproject.toml --extra server --extra tiered
lock requirements-full.txt pyproject.toml --extra connect --extra console --extra registry --extra rest --extra server \
    --extra spark --extra tables --extra tiered

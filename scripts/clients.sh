#!/bin/sh
# Installs clients and frameworks that tests hold the daemon against: for JavaScript in
# the versions and with the digests of scripts/NAME/package-lock.json, for Python in the
# versions of scripts/NAME/requirements.txt, where there are such files, from the
# registries that npm and pip are set up for. Nothing of it is run here.
#
#   scripts/clients.sh NAME FOLDER
set -eu

usage="usage: scripts/clients.sh NAME FOLDER, for which scripts/NAME has package-lock.json or requirements.txt"
name=${1:?$usage}
folder=${2:?$usage}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"
[ -e "$name/package-lock.json" ] || [ -e "$name/requirements.txt" ] || { echo "$usage" >&2; exit 2; }

same() { [ ! -e "$name/$1" ] || cmp -s "$name/$1" "$folder/$1"; }
if same package-lock.json && same requirements.txt && [ -e "$folder/.installed" ]; then
    exit 0
fi
echo "clients: installing those of $name into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp "$name"/* "$folder/"
cd "$folder"
if [ -e package-lock.json ]; then
    npm ci --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved >&2
fi
if [ -e requirements.txt ]; then
    python3 -m venv python >&2
    python/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt >&2
fi
: >.installed

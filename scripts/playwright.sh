#!/bin/sh
# Installs the client that tests drive browsers with: playwright-core in the
# version and with the digest of scripts/playwright/package-lock.json, from the
# registry that npm is set up for. It downloads no browser.
#
#   scripts/playwright.sh FOLDER
set -eu

folder=${1:?usage: scripts/playwright.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"

if cmp -s playwright/package-lock.json "$folder/package-lock.json" && [ -e "$folder/.installed" ]; then
    exit 0
fi
echo "playwright: installing playwright-core into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp playwright/package.json playwright/package-lock.json "$folder/"
cd "$folder"
PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved >&2
: >.installed

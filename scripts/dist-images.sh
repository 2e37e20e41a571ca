#!/bin/sh
# Writes the images of sandboxes that the engine has as OCI archives.
#
#   scripts/dist-images.sh OUT [IMAGE …]
#
# The images are sandbox, sandbox-browser and sandbox-code unless some are named.
# "skopeo copy oci-archive:FILE docker://REGISTRY/NAME:TAG" pushes one, and
# "skopeo copy oci-archive:FILE docker-daemon:NAME:TAG" loads it into an engine.
# They hold Debian's packages as of the day on which they were made, so two runs
# differ where Debian has changed.
set -eu

out=${1:?usage: scripts/dist-images.sh OUT [IMAGE …]}
shift
[ $# -gt 0 ] || set -- sandbox sandbox-browser sandbox-code
mkdir -p "$out"
if ! command -v skopeo >/dev/null; then
    echo "dist-images: installing skopeo" >&2
    sudo=
    [ "$(id -u)" -eq 0 ] || sudo='sudo --'
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends skopeo >&2
fi
for image; do
    file=$out/$image-bookworm-slim.oci.tar
    rm -f "$file"
    skopeo copy --quiet "docker-daemon:$image:bookworm-slim" "oci-archive:$file:$image:bookworm-slim"
done
(cd "$out" && sha256sum -- *.oci.tar >SHA256SUMS)
ls -l "$out"

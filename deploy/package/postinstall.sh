#!/bin/sh
# After the files are in place: make the user and the folder of the socket, where
# systemd's programs are there to do it. The service is not enabled.
set -e
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers sandbox.conf
fi
if command -v systemd-tmpfiles >/dev/null; then
    systemd-tmpfiles --create sandbox.conf || true # /run may not be there yet
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-reload-or-restart sandboxd.service
fi

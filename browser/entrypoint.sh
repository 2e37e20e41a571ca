#!/bin/bash
# sandbox-browser starts Chromium in a container and supervises it, with the
# display and the servers through which people watch it where that is wanted.
# Nothing listens but on loopback.
#
# When the debugging protocol answers, it writes the line "ready" to standard
# output and nothing else ever. It ends with 0 when it is told to end (TERM,
# INT, HUP), 2 for a wrong setting, 75 while another instance runs, and 1 for
# everything else, after one sentence on standard error that says why. Nothing
# that it started outlives it. What its parts write goes to the log.
# settings.sh has the settings.
set -u
umask 077
export LC_ALL=C
unset BASH_ENV ENV CDPATH GLOBIGNORE
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

readonly run_dir=/run/sandbox-browser
readonly log=$run_dir/log
readonly log_bytes=$((256 * 1024)) # at most
readonly settled=$run_dir/settled
readonly mark="settled $SRANDOM$SRANDOM" # the line at which that file is made
readonly passwords=$run_dir/vnc.passwd
readonly share=/usr/local/share/sandbox-browser
readonly chromium=/usr/lib/chromium/chromium
readonly small_shm=$((512 * 1024)) # KiB below which Chromium must not use /dev/shm

say() { printf 'sandbox-browser: %s\n' "$1" >&2; }

# shellcheck source=browser/settings.sh
. "$share/settings.sh" || exit 1
readonly work=$home/.sandbox-browser # everything that the parts write but the log

# --- the folder, and that there is one instance -----------------------------

parts=() # process ids, each the leader of a group
declare -A names=()
keeper=
ending=

# own makes a folder that is nobody else's and no link.
own() {
    mkdir -p -m 700 "$1" 2>/dev/null
    [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && chmod 700 "$1" && [ -w "$1" ]
}

if ! own "$run_dir"; then
    say "$run_dir cannot be made, or is not a folder of this user"
    exit 1
fi
exec {lock}>"$run_dir/lock" || exit 1
if ! flock -n "$lock"; then
    say "another instance runs in this container"
    exit 75
fi

# forget removes what an instance leaves: its profile, rules and passwords.
forget() {
    chmod -R u+rwX "$run_dir/policies" 2>/dev/null
    rm -rf "$run_dir/policies" "$passwords" "$run_dir/log.new" "$settled" "$work"
}

# --- the end ----------------------------------------------------------------

signal_parts() {
    local pid
    for pid in "${parts[@]}"; do
        kill "-$1" -- "-$pid" 2>/dev/null
    done
}

parts_left() {
    local pid
    for pid in "${parts[@]}"; do
        ! kill -0 -- "-$pid" 2>/dev/null || return 0
    done
    return 1
}

deadline=
late() { [ "${EPOCHREALTIME/./}" -gt "$deadline" ]; }

# allow MILLISECONDS: it is late when they have passed.
allow() { deadline=$((${EPOCHREALTIME/./} + $1 * 1000)); }

# finish ends all parts, and this script. It waits for them for 1.7 seconds at
# most: by the clock, because a pause takes longer on a busy machine, and by the
# number of pauses, because a clock can be set back.
finish() {
    trap '' TERM INT HUP
    ending=yes
    exec 2>/dev/null # how parts die that are told to is nobody's business
    signal_parts TERM
    local try
    allow 1500
    for try in {1..30}; do
        if late || ! parts_left; then break; fi
        sleep 0.05
    done
    signal_parts KILL
    [ "${#parts[@]}" -eq 0 ] || wait "${parts[@]}" 2>/dev/null
    if [ -n "$keeper" ]; then
        exec {sink}>&-
        allow 200
        for try in {1..10}; do # until it has written the rest
            if late || ! kill -0 "$keeper" 2>/dev/null; then break; fi
            sleep 0.02
        done
        kill -KILL "$keeper" 2>/dev/null
    fi
    forget
    exit "$1"
}

# fail says why, and what the parts said last.
fail() {
    say "$1"
    settle
    tail -n 5 "$log" 2>/dev/null | tail -c 2000 | tr -c '[:print:]\n' '?' >&2
    finish 1
}

# --- the log ----------------------------------------------------------------

# keep writes its input, but for empty lines, to the log and keeps the end of it.
keep() {
    local line size=0
    while IFS= read -r -n 2000 line || [ -n "$line" ]; do
        case $line in
        '') continue ;;
        "$mark")
            : >"$settled"
            continue
            ;;
        esac
        printf '%s\n' "$line" >>"$log"
        size=$((size + ${#line} + 1))
        if [ "$size" -gt $((log_bytes - 4096)) ]; then
            tail -c $((log_bytes / 2)) "$log" >"$log.new" && mv "$log.new" "$log"
            size=$((log_bytes / 2))
        fi
    done
}

# settle waits until the log has what was written before, which another process
# puts there: for 15 seconds at most, bounded like the waiting of finish.
settle() {
    local try
    trap '' PIPE # that process may be gone
    printf '\n%s\n' "$mark" 2>/dev/null >&"$sink" || return
    allow 15000
    for try in {1..300}; do
        if late || [ -e "$settled" ]; then break; fi
        sleep 0.05
    done
}

# --- starting parts ---------------------------------------------------------

# launch NAME COMMAND...: a process group of its own, which ends when this
# script is killed.
launch() {
    local name=$1
    shift
    setsid setpriv --pdeathsig KILL -- "$@" </dev/null >&"$sink" 2>&1 {sink}>&- {lock}>&- &
    parts+=($!)
    names[$!]=$name
}

# check ends everything when a part is gone.
check() {
    local pid
    for pid in "${parts[@]}"; do
        kill -0 "$pid" 2>/dev/null || lost "$pid"
    done
}

# lost tells which part has died, and when it was for want of user namespaces.
lost() {
    local status=0
    wait "$1" || status=$?
    [ -z "$ending" ] || return
    if [ "${names[$1]}" = Chromium ]; then
        settle
        if unusable; then
            fail "Chromium's own sandbox cannot start: user namespaces are not allowed in this container; browser.dangerouslyNoSandbox would run Chromium without it"
        fi
    fi
    fail "${names[$1]} has ended by itself, with status $status"
}

unusable() {
    [ "$no_sandbox" = 0 ] && grep -q -e 'No usable sandbox' -e 'Failed to move to new namespace' -e 'SUID sandbox helper' "$log"
}

# listens PORT: somebody listens there on loopback. The row of /proc/net/tcp
# tells without a connection.
listens() {
    local address state want
    printf -v want '0100007F:%04X' "$1"
    while read -r _ address _ state _; do
        [ "$address" = "$want" ] && [ "$state" = 0A ] && return 0
    done </proc/net/tcp
    return 1
}

# answers: the debugging protocol does.
answers() {
    local socket line=
    listens "$cdp_port" || return 1
    { exec {socket}<>"/dev/tcp/127.0.0.1/$cdp_port"; } 2>/dev/null || return 1
    printf 'GET /json/version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&"$socket" 2>/dev/null
    read -r -t 2 line <&"$socket"
    exec {socket}>&-
    case $line in
    'HTTP/1.1 200'*) return 0 ;;
    esac
    return 1
}

# until_ready WHAT COMMAND...: waits for COMMAND until the deadline.
until_ready() {
    local what=$1
    shift
    while ! "$@"; do
        check
        if late; then
            fail "$what did not answer within SANDBOX_BROWSER_START_TIMEOUT=$start_timeout seconds"
        fi
        sleep 0.03
    done
}

# --- what Chromium is told --------------------------------------------------

# policies writes the rules that hold for everybody who drives the browser.
# The folder is closed for writing, so that a download cannot add to them.
policies() {
    local allow='"about:blank"' scheme restrict=3
    for scheme in "${scheme_list[@]}"; do
        case $scheme in
        data) allow="$allow, \"data:*\"" ;;
        *) allow="$allow, \"$scheme://*\"" ;;
        esac
    done
    [ "$downloads" = 0 ] || restrict=0
    mkdir -m 700 "$run_dir/policies" || return 1
    cat >"$run_dir/policies/session.json" <<END || return 1
{ "URLBlocklist": ["*", "chrome://*", "javascript://*", "devtools://*", "view-source:*"], "URLAllowlist": [$allow], "DownloadRestrictions": $restrict }
END
    ln -s "$share/policies.json" "$run_dir/policies/fixed.json" || return 1
    chmod 400 "$run_dir/policies/session.json" && chmod 500 "$run_dir/policies"
}

# chromium_flags fills flags.
chromium_flags() {
    flags=(
        --user-data-dir="$work/profile"
        --remote-debugging-address=127.0.0.1 --remote-debugging-port="$cdp_port"
        --disk-cache-size=67108864 --media-cache-size=33554432
        --no-first-run --no-default-browser-check --no-service-autorun --no-pings --password-store=basic --use-mock-keychain
        --disable-extensions --disable-component-extensions-with-background-pages --disable-default-apps
        --disable-background-networking --disable-component-update --disable-domain-reliability --disable-sync
        --disable-client-side-phishing-detection --disable-breakpad --disable-quic
        --disable-search-engine-choice-screen --disable-infobars --disable-notifications --mute-audio
        --metrics-recording-only --force-webrtc-ip-handling-policy=disable_non_proxied_udp
        --disable-gpu --disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,InterestFeedContentSuggestions,AsyncDns
        --window-size=1280,800
    )
    if [ "$headless" = 1 ]; then
        flags+=(--headless=new)
    else
        flags+=(--ozone-platform=x11 --window-position=0,0)
    fi
    if [ "$proxy" = direct ]; then
        flags+=(--no-proxy-server)
    else
        flags+=(--proxy-server="http://$proxy" "--proxy-bypass-list=<-loopback>")
    fi
    local shm
    shm=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)
    [ "${shm:-0}" -ge "$small_shm" ] || flags+=(--disable-dev-shm-usage)
    [ "$no_sandbox" = 0 ] || flags+=(--no-sandbox)
    flags+=(about:blank)
}

# --- the display ------------------------------------------------------------

# display starts Xvfb and sets DISPLAY and XAUTHORITY. Who has not the cookie
# is let in by nothing.
display() {
    local number=
    export XAUTHORITY=$work/xauthority
    {
        # Any address, any display, one name, 16 bytes: see Xau's format.
        printf '\377\377\0\0\0\0\0\022MIT-MAGIC-COOKIE-1\0\020'
        head -c 16 /dev/urandom
    } >"$XAUTHORITY"
    mkfifo "$work/display" || fail "no pipe can be made in $work"
    exec {told}<>"$work/display"
    launch Xvfb Xvfb -displayfd "$told" -screen 0 1280x800x24 -nolisten tcp -auth "$XAUTHORITY" -noreset
    until_ready Xvfb read -t 0 -u "$told" # there is something to read
    read -r -t 2 number <&"$told"
    exec {told}>&-
    case $number in
    '' | *[!0-9]*) fail "Xvfb did not say which display it is" ;;
    esac
    export DISPLAY=:$number
}

# watchers starts what the display is watched through. The password is one
# that nobody knows until somebody else is put into the file.
watchers() {
    launch websockify websockify --web /usr/share/novnc "127.0.0.1:$novnc_port" "127.0.0.1:$vnc_port"
    vnc_server
}

vnc_server() {
    head -c 64 /dev/urandom | base64 -w 0 | head -c 8 >"$passwords"
    launch x11vnc x11vnc -norc -display "$DISPLAY" -auth "$XAUTHORITY" -rfbport "$vnc_port" -localhost -no6 -noipv6 \
        -passwdfile "read:$passwords" -forever -shared -noremote -nocmds -nosel -nodpms -nolookup -noncache \
        -notightfilexfer -nobell -norepeat -quiet
}

# --- the run ----------------------------------------------------------------

trap 'finish 0' TERM INT HUP
forget
rm -f "$log"
: >"$log"
own "$work" || { say "$work cannot be made"; exit 1; }
mkdir "$work/profile" "$work/tmp" "$work/cache" "$work/config" "$work/run" || { say "$work cannot be filled"; exit 1; }
exec {sink}> >(trap '' TERM INT HUP; exec {lock}>&-; keep)
keeper=$!

export HOME=$work TMPDIR=$work/tmp XDG_CONFIG_HOME=$work/config XDG_CACHE_HOME=$work/cache XDG_RUNTIME_DIR=$work/run
export DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere NO_AT_BRIDGE=1 LANG=C.UTF-8
unset DISPLAY XAUTHORITY http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY SSLKEYLOGFILE
unset GOOGLE_API_KEY GOOGLE_DEFAULT_CLIENT_ID GOOGLE_DEFAULT_CLIENT_SECRET
unset LC_ALL

allow $((start_timeout * 1000))
for port in "$cdp_port" $([ "$vnc" = 0 ] || echo "$vnc_port $novnc_port"); do
    ! listens "$port" || fail "another program listens at port $port"
done
policies || fail "the rules cannot be written"
[ "$headless" = 1 ] || display
chromium_flags
# Whoever finds the browser answering may change the password at once, so that
# ours has to be there before.
[ "$vnc" = 0 ] || watchers
launch Chromium "$chromium" "${flags[@]}"
until_ready Chromium answers
if [ "$vnc" = 1 ]; then
    until_ready x11vnc listens "$vnc_port"
    until_ready websockify listens "$novnc_port"
fi
check
echo ready

while :; do
    gone=
    wait -n -p gone "${parts[@]}"
    status=$?
    [ -n "$gone" ] || fail "a part has ended by itself"
    # The VNC server ends with 1 when it finds no password: then nobody may
    # watch any more, which is no reason to end the browser. Its port is free
    # again only after a moment, and a next one ends the same way until then.
    if [ "${names[$gone]}" != x11vnc ] || [ "$status" -ne 1 ]; then
        fail "${names[$gone]} has ended by itself, with status $status"
    fi
    remaining=()
    for pid in "${parts[@]}"; do
        [ "$pid" = "$gone" ] || remaining+=("$pid")
    done
    parts=("${remaining[@]}")
    sleep 0.3
    vnc_server
done

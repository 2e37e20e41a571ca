#!/usr/bin/env bash
# Starts the server with settings and state of its own, makes two tenants, and
# shows a session: sandboxes, commands, files, tools, what the other tenant can
# do about it (nothing), an agent over MCP, and the figures. Each answer is held
# against what the line above it says; the exit status is 0 only when all are
# as they should be. Nothing is left behind.
set -u -o pipefail
umask 077

here=$(cd "$(dirname "$0")" && pwd)
sandbox=${SANDBOX:-$here/../bin/sandbox}
if [ ! -x "$sandbox" ]; then
	echo "demo-server: $sandbox is missing; run: make build" >&2
	exit 2
fi
if ! curl --help all 2>/dev/null | grep -q -- '--json'; then
	echo "demo-server: curl 7.82 or later is needed (--json)" >&2
	exit 2
fi
# A daemon of the user's must not take part.
unset SANDBOX_SERVER SANDBOX_HOST SANDBOX_TOKEN NOTIFY_SOCKET LISTEN_FDS LISTEN_PID LISTEN_FDNAMES
export SANDBOX_CONFIG SANDBOX_STATE_DIR
dir=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-demo.XXXXXX") || exit 2
SANDBOX_CONFIG=$dir/sandbox.json
SANDBOX_STATE_DIR=$dir/state
server=

# stop ends the server as systemd does, and waits for it. Its status is kept.
stop() {
	[ -n "$server" ] || return 0
	kill -TERM "$server" 2>/dev/null
	wait "$server"
	server_status=$?
	server=
}
clean_up() {
	stop
	if [ -d "$SANDBOX_STATE_DIR" ]; then
		"$sandbox" recreate --all --force >/dev/null 2>"$dir/cleanup.log" || cat "$dir/cleanup.log" >&2
	fi
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

failed=0
say() { printf '\n%s\n' "$*"; }
# plain makes what was answered safe to print, and short. Ids of containers go,
# and of a problem what its type and title repeat.
plain() {
	sed -E 's/"id":"[0-9a-f]{64}",//; s/"type":"urn:[^"]*","title":"[^"]*","status":[0-9]*,//' |
		LC_ALL=C tr -cd '[:print:]\n' | cut -c1-"${1:-140}" | sed 's/^/    /'
}
# quoted prints the arguments as one would type them.
quoted() {
	local a
	for a; do
		a=${a//"${at:-none}"/\$AT}
		a=${a//"$url"/\$URL}
		a=${a//"$dir/"/}
		case $a in
		*[!A-Za-z0-9_=/.:\$-]*)
			case $a in
			\$*) printf ' "%s"' "$a" ;;
			*) printf " '%s'" "$a" ;;
			esac
			;;
		*) printf ' %s' "$a" ;;
		esac
	done
}
differs() {
	failed=1
	printf '  ! differs: %s\n' "$*"
}
# token prints the secret of the tenant $1, as a line for curl that no list of processes shows.
token() { printf 'header = "Authorization: Bearer %s"\n' "$(cat "$dir/$1.token")"; }

# ask sends one request as the tenant $1, wants the status $2 and the text $3 in
# the answer, and shows both. The answer is in the file body, its head in head.
ask() {
	local who=$1 want=$2 text=$3
	shift 3
	printf '\n  %s: curl%s\n' "$who" "$(quoted "$@")"
	got=$(curl -sS -K <(token "$who") --max-time 30 -D "$dir/head" -o "$dir/body" -w '%{http_code}' "$@" 2>"$dir/curl.log") ||
		differs "curl failed: $(cat "$dir/curl.log")"
	{
		printf '%s ' "$got"
		sed '/^:/d; /^$/d' "$dir/body"
	} | head -n 8 | plain
	[ "$got" = "$want" ] || differs "the status should be $want"
	[ -z "$text" ] || grep -qF -- "$text" "$dir/body" || differs "this is missing: $text"
}
field() { sed -n "s/.*\"$1\":\"\\([^\"]*\\)\".*/\\1/p" "$dir/body" | head -n1; }
head_field() { tr -d '\r' <"$dir/head" | sed -n "s/^$1: *//Ip" | head -n1; }

cat >"$SANDBOX_CONFIG" <<'JSON'
{
  "agents": { "defaults": { "sandbox": { "docker": { "memory": "256m" } } } },
  // Two tenants, and nobody else. acme may have one sandbox at a time.
  "tenants": { "closed": true, "list": [ { "id": "acme", "sandboxes": 1 }, { "id": "globex" } ] }
}
JSON

say "A server with two tenants starts …"
"$sandbox" serve --listen "unix:$dir/sandbox.sock" --listen tcp:127.0.0.1:0 2>"$dir/serve.log" &
server=$!
ready=
for _ in $(seq 200); do
	kill -0 "$server" 2>/dev/null || break
	curl -sSf --max-time 5 --unix-socket "$dir/sandbox.sock" http://localhost/readyz >"$dir/body" 2>/dev/null && ready=yes && break
	sleep 0.1
done
address=$(sed -n 's/.*listening at tcp:\([0-9.:]*\)$/\1/p' "$dir/serve.log" | head -n1)
if [ -z "$ready" ] || [ -z "$address" ]; then
	echo "demo-server: the server does not answer:" >&2
	plain 300 <"$dir/serve.log" >&2
	exit 1
fi
url=http://$address
for tenant in acme globex; do
	"$sandbox" token create --tenant "$tenant" --expires 1h >"$dir/$tenant.token" 2>"$dir/token.log" || {
		cat "$dir/token.log" >&2
		exit 1
	}
	printf '  token of %-7s %s…\n' "$tenant" "$(cut -c1-12 "$dir/$tenant.token")"
done
printf '  URL=%s\n' "$url"

say "acme makes a sandbox for a session, once, however often it asks with that key …"
ask acme 201 '"status":"running"' -H 'Idempotency-Key: order-17' --json '{"session":"chat-42"}' "$url/v1/sandboxes"
name=$(field name)
ask acme 201 "$name" -H 'Idempotency-Key: order-17' --json '{"session":"chat-42"}' "$url/v1/sandboxes"
[ "$(head_field Idempotency-Replayed)" = true ] || differs "the answer is not marked as given before"
at=$url/v1/sandboxes/$name
printf '\n  AT=$URL/v1/sandboxes/%s\n' "$name"

say "… runs commands in it, answered at their end or as they go …"
ask acme 200 '"exitCode":3' --json '{"line":"echo hello; id -un; exit 3"}' "$at/exec"
ask acme 200 'event: exit' -N -H 'Accept: text/event-stream' --json '{"line":"for i in 1 2 3; do echo step $i; sleep 0.2; done"}' "$at/exec"
[ "$(grep -c '^event: stdout' "$dir/body")" -ge 2 ] || differs "the output came in one piece"

say "… writes and reads files, whole or a part …"
printf 'print(sum(range(10)))\n' >"$dir/main.py"
ask acme 201 '"etag"' -T "$dir/main.py" "$at/files/workspace/main.py"
ask acme 206 'sum' -r 6-8 "$at/files/workspace/main.py"
ask acme 200 '"name":"main.py"' "$at/files/workspace?list"

say "… and calls a tool as its agent does."
ask acme 200 '"failed":false' --json '{"command":"python3 main.py"}' "$at/tools/exec"
grep -q '"text":"45\\n"' "$dir/body" || differs "the program should say 45"

say "A second sandbox is more than acme may have."
ask acme 429 'QUOTA.BUDGET_EXCEEDED' --json '{"session":"another"}' "$url/v1/sandboxes"
grep -q '"hint":"remove' "$dir/body" || differs "it does not say what would help"
[ -z "$(head_field Retry-After)" ] || differs "to wait would not help"

say "globex knows the name of acme's sandbox, and gets what it gets for one that never was."
ask globex 404 'SANDBOX.NOT_FOUND' "$at"
sed 's/"requestId":"[^"]*"//; s/'"$name"'/NAME/g' "$dir/body" >"$dir/first"
ask globex 404 'SANDBOX.NOT_FOUND' "$url/v1/sandboxes/sbx-chat-42-0000000000000000"
sed 's/"requestId":"[^"]*"//; s/sbx-chat-42-0000000000000000/NAME/g' "$dir/body" >"$dir/second"
cmp -s "$dir/first" "$dir/second" || differs "the two answers are not the same"
ask globex 404 'SANDBOX.NOT_FOUND' --json '{"line":"cat main.py"}' "$at/exec"
ask globex 404 'SANDBOX.NOT_FOUND' "$at/files/workspace/main.py"
ask globex 403 'SANDBOX.PERMISSION_DENY' -H 'Sandbox-Tenant: acme' "$at"
ask globex 200 '{"items":[]}' "$url/v1/sandboxes"

say "An agent of acme speaks the Model Context Protocol …"
mcp() { ask acme "$1" "$2" "$url/mcp" -H 'Sandbox-Session: chat-42' -H 'Accept: application/json, text/event-stream' "${@:3}"; }
mcp 200 '"serverInfo"' --json '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}'
session=$(head_field Mcp-Session-Id)
mcp 202 '' -H "Mcp-Session-Id: $session" --json '{"jsonrpc":"2.0","method":"notifications/initialized"}'
mcp 200 '"text":"45\n"' -H "Mcp-Session-Id: $session" --json '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"python3 main.py"}}}'

say "… and whoever runs the machine reads the figures at the socket, which needs no token."
printf '\n  curl --unix-socket sandbox.sock http://localhost/metrics\n'
curl -sS --max-time 10 --unix-socket "$dir/sandbox.sock" http://localhost/metrics >"$dir/body" || differs "no figures"
grep -E '^sandbox_http_requests_total.*(/exec|/files).*' "$dir/body" | plain
grep -qE '^sandbox_http_requests_total.*/exec",status="2xx"} 2$' "$dir/body" || differs "two commands should have been counted"
grep -q chat-42 "$dir/body" && differs "the figures name a session"
ask acme 403 'SANDBOX.PERMISSION_DENY' "$url/metrics"

say "The sandbox is removed, and the server asked to end."
ask acme 204 '' -X DELETE "$at?force=true&workspace=true"
ask acme 404 'SANDBOX.NOT_FOUND' "$at"
stop
[ "$server_status" -eq 0 ] || differs "the server ended with status $server_status"
left=$("$sandbox" list --all -o json) || differs "the sandboxes cannot be listed"
case $left in *sbx-*) differs "a sandbox is left behind" ;; esac
clean_up
trap - EXIT
[ ! -e "$dir" ] || differs "$dir is left behind"

echo
if [ "$failed" -ne 0 ]; then
	echo "Something differs from what was said." >&2
	exit 1
fi
echo "All answers were as they should be, and nothing is left behind."

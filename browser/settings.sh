# shellcheck shell=bash disable=SC2034 # for entrypoint.sh, which reads this
#
# Settings, all optional; package browser has their meaning:
#   SANDBOX_BROWSER_CDP_PORT, _VNC_PORT, _NOVNC_PORT   ports on loopback
#   SANDBOX_BROWSER_HEADLESS, _VNC, _NO_SANDBOX, _DOWNLOADS   0 or 1
#   SANDBOX_BROWSER_PROXY           address:port, or "direct"
#   SANDBOX_BROWSER_SCHEMES         list of http, https, data
#   SANDBOX_BROWSER_START_TIMEOUT   seconds

wrong() {
    say "$1"
    exit 2
}

# number NAME VALUE LEAST MOST
number() {
    case $2 in
    '' | *[!0-9]* | 0?* | ???????*) wrong "SANDBOX_BROWSER_$1 must be a number from $3 to $4" ;;
    esac
    if [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then
        wrong "SANDBOX_BROWSER_$1 must be a number from $3 to $4"
    fi
}

# truth NAME VALUE
truth() {
    case $2 in
    0 | 1) ;;
    *) wrong "SANDBOX_BROWSER_$1 must be 0 or 1" ;;
    esac
}

cdp_port=${SANDBOX_BROWSER_CDP_PORT-9222}
vnc_port=${SANDBOX_BROWSER_VNC_PORT-5900}
novnc_port=${SANDBOX_BROWSER_NOVNC_PORT-6080}
headless=${SANDBOX_BROWSER_HEADLESS-1}
vnc=${SANDBOX_BROWSER_VNC-0}
no_sandbox=${SANDBOX_BROWSER_NO_SANDBOX-0}
proxy=${SANDBOX_BROWSER_PROXY-127.0.0.1:3128}
schemes=${SANDBOX_BROWSER_SCHEMES-http,https}
downloads=${SANDBOX_BROWSER_DOWNLOADS-0}
start_timeout=${SANDBOX_BROWSER_START_TIMEOUT-12}

number CDP_PORT "$cdp_port" 1024 65535
number VNC_PORT "$vnc_port" 1024 65535
number NOVNC_PORT "$novnc_port" 1024 65535
if [ "$cdp_port" = "$vnc_port" ] || [ "$cdp_port" = "$novnc_port" ] || [ "$vnc_port" = "$novnc_port" ]; then
    wrong "SANDBOX_BROWSER_CDP_PORT, SANDBOX_BROWSER_VNC_PORT and SANDBOX_BROWSER_NOVNC_PORT must be three ports"
fi
truth HEADLESS "$headless"
truth VNC "$vnc"
truth NO_SANDBOX "$no_sandbox"
truth DOWNLOADS "$downloads"
if [ "$vnc" = 1 ] && [ "$headless" = 1 ]; then
    wrong "SANDBOX_BROWSER_VNC=1 needs SANDBOX_BROWSER_HEADLESS=0: there is no display to watch"
fi
number START_TIMEOUT "$start_timeout" 1 3600
case $schemes in
'' | ,* | *, | *,,*) wrong "SANDBOX_BROWSER_SCHEMES must be a list of http, https and data" ;;
esac
IFS=, read -r -a scheme_list <<<"$schemes"
for scheme in "${scheme_list[@]}"; do
    case $scheme in
    http | https | data) ;;
    *) wrong "SANDBOX_BROWSER_SCHEMES must be a list of http, https and data" ;;
    esac
done
if [ "$proxy" != direct ]; then
    if ! [[ $proxy =~ ^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5})$ ]]; then
        wrong 'SANDBOX_BROWSER_PROXY must be address:port, or "direct"'
    fi
    number "PROXY's port" "${proxy##*:}" 1 65535
fi
home=${HOME:-/home/sandbox}
case $home in
/*) ;;
*) wrong "HOME must be an absolute path" ;;
esac

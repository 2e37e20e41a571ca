#!/bin/sh
# Builds, starts and stops a Kubernetes cluster of one node on this machine, for
# tests. It is a real one: kube-apiserver, its controllers, scheduler, proxy and
# kubelet from their sources, etcd, containerd, and network policies that are
# enforced.
#
#   scripts/kube.sh [--number N] [--state FOLDER] COMMAND
#     build                    build the programs into bin/kube, unless they are cached
#     start [--without-kubelet]  start the cluster and wait until it is ready
#     stop                     end it and remove everything that it made
#     status                   tell whether it runs, and which version
#     import IMAGE...          give images of the Docker engine to the node
#     run COMMAND...           run a command in the namespaces of the node
#     signal PROGRAM SIGNAL    send a signal to one program of the cluster
#
# The whole node lives in namespaces of its own, for mounts, network and
# processes: its firewall, interfaces, mounts and processes are not those of the
# machine, they end with its first process, and clusters with different numbers
# (0 to 60) run beside each other. The machine reaches it over one pair of
# interfaces; cluster N has the addresses 198.18.4N.0 to 198.18.(4N+3).255,
# which are set aside for tests of networks and are routed nowhere else.
#
# It needs root, and what it lacks it installs with apt-get. Environment:
# SANDBOX_KUBE_NUMBER, SANDBOX_KUBE_STATE (/var/lib/sandbox-kube/N).
set -eu

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

programs="kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl"
here=$(cd "$(dirname "$0")" && pwd)
bin=${here%/*}/bin/kube

say() { echo "kube: $*" >&2; }

fail() {
    say "$1"
    [ -z "${2-}" ] || say "what to do: $2"
    exit 1
}

usage() {
    sed -n '7,14s/^# \{0,3\}//p' "$0" >&2
    exit 2
}

number=${SANDBOX_KUBE_NUMBER:-0}
state=${SANDBOX_KUBE_STATE-}
while :; do
    case ${1-} in
    --number) number=${2:?} && shift 2 ;;
    --state) state=${2:?} && shift 2 ;;
    *) break ;;
    esac
done
case $number in
[0-9] | [1-5][0-9] | 60) ;;
*) fail "the number of a cluster is 0 to 60, not $number" ;;
esac
: "${state:=/var/lib/sandbox-kube/$number}"
case $state in
/*/*) ;;
*) fail "the state folder $state is no absolute path below another folder" ;;
esac

third=$((number * 4))
machine_ip=198.18.$third.1
node_ip=198.18.$third.2
service_range=198.18.$((third + 1)).0/24
service_ip=198.18.$((third + 1)).1
pod_range=198.18.$((third + 2)).0/23
link=kube$number
node=node
cgroup=sandbox-kube-$number
kubeconfig=$state/kubeconfig

# --- build --------------------------------------------------------------------

# want adds a package unless its command is there.
missing=
want() {
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

install_missing() {
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        fail "missing:$missing, and this machine has no apt-get" "install them with this system's own means"
    say "installing:$missing"
    log=$(mktemp)
    # shellcheck disable=SC2086 # names without blanks or globs
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "could not install:$missing" "see that apt-get update works, then repeat"
    fi
    rm -f "$log"
    missing=
}

# build puts the programs of both modules into bin/kube. What a module's files,
# the version of Go and the processor make is kept in the user's cache.
build() {
    command -v go >/dev/null 2>&1 || fail "Go is not installed or not in PATH" "install Go 1.26 or newer"
    mkdir -p "$bin"
    cached kubernetes build_kubernetes
    for name in $programs; do
        ln -sfn "$cache/kubernetes" "$bin/$name"
    done
    ln -sfn "$cache/pause" "$bin/pause"
    cached node build_node
    for file in "$cache"/*; do
        ln -sfn "$file" "$bin/${file##*/}"
    done
}

# cached MODULE BUILD sets cache to the folder of the module's programs.
cached() {
    cd "${here%/*}/internal/testenv/kube/$1"
    digest=$({ go env GOVERSION GOARCH && find . -type f | LC_ALL=C sort | xargs cat; } | sha256sum | cut -c 1-16)
    kept=${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-kube/$1-$digest
    if [ ! -e "$kept" ]; then
        say "building $1 into $kept, which takes some minutes"
        cache=$kept.$$
        rm -rf "$cache"
        mkdir -p "$cache"
        $2
        # Another checkout may have built the same meanwhile.
        mv -T "$cache" "$kept" 2>/dev/null || rm -rf "$cache"
    fi
    cache=$kept
    cd "$OLDPWD"
}

# selected prints the version of a module that a go.mod selects.
selected() { GOFLAGS='' go list -m -f '{{.Version}}' "$1"; }

build_kubernetes() {
    version=$(selected k8s.io/kubernetes)
    minor=${version#*.}
    v=k8s.io/component-base/version
    CGO_ENABLED=0 go build -buildvcs=false -trimpath -o "$cache/" \
        -ldflags "-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*}" .
    # The program that holds the namespaces of a pod is of C, in the same module.
    want cc "gcc libc6-dev"
    install_missing
    cc -Os -static -DVERSION="$version" -o "$cache/pause" "$(GOFLAGS='' go list -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c"
}

build_node() {
    c=github.com/containerd/containerd/v2
    CGO_ENABLED=0 go build -buildvcs=false -trimpath -tags "no_btrfs no_zfs no_devmapper no_blockfile no_erofs" -o "$cache/" \
        -ldflags "-s -w -X $c/version.Version=$(selected $c)" \
        ./netpol $c/cmd/containerd $c/cmd/containerd-shim-runc-v2 $c/cmd/ctr
    want cc "gcc libc6-dev"
    want pkg-config pkg-config
    [ -e /usr/include/seccomp.h ] || missing="$missing libseccomp-dev"
    install_missing
    CGO_ENABLED=1 go build -buildvcs=false -trimpath -tags seccomp -ldflags "-s -w" -o "$cache/" github.com/opencontainers/runc
}

# --- the node, from inside its namespaces --------------------------------------

# keep runs a program again whenever it ends, as a service manager would, so
# that tests may end it.
keep() {
    name=$1
    shift
    while :; do
        "$@" >>"/var/log/$name.log" 2>&1 &
        echo $! >"$state/pids/$name"
        wait $! || :
        sleep 1
    done
}

# be_node runs as the first process of the namespaces: $1 says whether there
# is a kubelet.
be_node() {
    # Mounts of the machine's containers would be held by this namespace.
    awk '$3 == "overlay" || $3 == "nsfs" { print $2 }' /proc/mounts | while read -r path; do
        [ "$path" = / ] || umount -l "$path" 2>/dev/null || :
    done
    mount --make-rshared /
    # Fixed paths of a node are the cluster's own folders.
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/state /run/lib /run/netns
    mount --bind "$state" /run/state
    mount --bind /run/lib /var/lib
    mkdir -p "$state" /var/lib/kubelet /var/lib/containerd /var/lib/etcd
    mount --bind /run/state "$state"
    mount --bind "$state/kubelet" /var/lib/kubelet
    mount --make-rshared /var/lib/kubelet
    mount --bind "$state/containerd" /var/lib/containerd
    mount --bind "$state/log" /var/log
    # The kubelet writes what it wants of the kernel's settings, which are the
    # whole machine's: it finds them as it wants them.
    mkdir /run/sysctl
    for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
        kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
        file=/run/sysctl/$(echo "${setting%=*}" | tr / .)
        echo "${setting#*=}" >"$file"
        [ ! -e "/proc/sys/${setting%=*}" ] || mount --bind "$file" "/proc/sys/${setting%=*}"
    done

    # The kernel mounts /proc in a user namespace only beside one that has
    # nothing mounted over it.
    mkdir /run/proc
    mount -t proc proc /run/proc
    # Policies are enforced for version 4, so pods have no other addresses.
    echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
    ip link set lo up
    ip address add "$node_ip/30" dev eth0
    ip link set eth0 up
    ip route add default via "$machine_ip"
    echo 1 >/proc/sys/net/ipv4/ip_forward

    cd /
    p=$state/pki
    keep etcd etcd --name "$node" --data-dir /var/lib/etcd/data --listen-client-urls http://127.0.0.1:2379 \
        --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
        --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster "$node=http://127.0.0.1:2380" &
    keep kube-apiserver "$state/bin/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
        --bind-address "$node_ip" --advertise-address "$node_ip" --secure-port 6443 \
        --service-cluster-ip-range "$service_range" --allow-privileged=true \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
        --feature-gates ImageVolume=true \
        --default-not-ready-toleration-seconds 30 --default-unreachable-toleration-seconds 30 \
        --client-ca-file "$p/ca.crt" --tls-cert-file "$p/apiserver.crt" --tls-private-key-file "$p/apiserver.key" \
        --kubelet-certificate-authority "$p/ca.crt" --kubelet-client-certificate "$p/kubelet-client.crt" \
        --kubelet-client-key "$p/kubelet-client.key" --kubelet-preferred-address-types InternalIP \
        --requestheader-client-ca-file "$p/front-ca.crt" --requestheader-allowed-names front-client \
        --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
        --requestheader-extra-headers-prefix X-Remote-Extra- \
        --proxy-client-cert-file "$p/front-client.crt" --proxy-client-key-file "$p/front-client.key" \
        --service-account-issuer https://kubernetes.default.svc.cluster.local \
        --service-account-key-file "$p/accounts.crt" --service-account-signing-key-file "$p/accounts.key" &
    # The node counts as lost after 20 s, a second report of it after 4: the
    # defaults are 50 and 10, for large clusters.
    keep kube-controller-manager "$state/bin/kube-controller-manager" --kubeconfig "$p/controller-manager.kubeconfig" \
        --leader-elect=false --bind-address 127.0.0.1 --use-service-account-credentials \
        --root-ca-file "$p/ca.crt" --service-account-private-key-file "$p/accounts.key" \
        --cluster-signing-cert-file "$p/ca.crt" --cluster-signing-key-file "$p/ca.key" \
        --service-cluster-ip-range "$service_range" --cluster-cidr "$pod_range" \
        --node-monitor-grace-period 20s --node-monitor-period 2s --feature-gates ImageVolume=true &
    keep kube-scheduler "$state/bin/kube-scheduler" --kubeconfig "$p/scheduler.kubeconfig" \
        --leader-elect=false --bind-address 127.0.0.1 --feature-gates ImageVolume=true &
    if [ "$1" = with ]; then
        PATH=$state/bin:$PATH # for the shim
        keep containerd "$state/bin/containerd" --config "$state/containerd.toml" &
        until [ -S "$state/containerd.sock" ]; do sleep 0.1; done
        keep kubelet "$state/bin/kubelet" --config "$state/kubelet.yaml" --kubeconfig "$p/kubelet.kubeconfig" \
            --hostname-override "$node" --node-ip "$node_ip" &
        keep kube-proxy "$state/bin/kube-proxy" --config "$state/proxy.yaml" --hostname-override "$node" &
        keep netpol "$state/bin/netpol" --kubeconfig "$p/netpol.kubeconfig" --node "$node" --services "$service_range" &
    fi
    wait
}

# --- start ----------------------------------------------------------------------

# certificate NAME SUBJECT [SIGNER [EXTRA]] makes pki/NAME.crt and .key.
certificate() {
    set -- "$1" "$2" "${3-}" "${4-}"
    cat >"$state/pki/openssl.cnf" <<EOF
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, digitalSignature, keyCertSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
$4
EOF
    if [ -n "$3" ]; then
        set -- "$1" "$2" leaf -CA "$state/pki/$3.crt" -CAkey "$state/pki/$3.key"
    else
        set -- "$1" "$2" authority
    fi
    (
        cd "$state/pki"
        name=$1 subject=$2 section=$3
        shift 3
        openssl req -x509 -config openssl.cnf -extensions "$section" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
            -days 3650 -subj "$subject" -keyout "$name.key" -out "$name.crt" "$@" 2>openssl.log || { cat openssl.log >&2 && exit 1; }
    )
}

# access NAME FILE writes a kubeconfig that carries the certificate NAME.
access() {
    cat >"$2" <<EOF
apiVersion: v1
kind: Config
current-context: sandbox-kube
clusters:
- name: sandbox-kube
  cluster:
    server: https://$node_ip:6443
    certificate-authority-data: $(base64 -w 0 "$state/pki/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w 0 "$state/pki/$1.crt")
    client-key-data: $(base64 -w 0 "$state/pki/$1.key")
contexts:
- name: sandbox-kube
  context: {cluster: sandbox-kube, user: $1}
EOF
}

write_state() {
    umask 077
    mkdir -p "$state/pki" "$state/pids" "$state/log" "$state/kubelet/seccomp" "$state/containerd" "$state/cni" "$state/images"
    umask 022
    # The cluster runs on when the checkout is gone.
    cp -a "$bin" "$state/bin"
    certificate ca /CN=sandbox-kube
    certificate front-ca /CN=sandbox-kube-front
    certificate accounts /CN=accounts
    certificate apiserver /CN=kube-apiserver ca "subjectAltName = IP:$node_ip, IP:$service_ip, DNS:kubernetes, DNS:kubernetes.default, DNS:kubernetes.default.svc, DNS:kubernetes.default.svc.cluster.local"
    certificate kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client ca
    certificate kubelet "/O=system:nodes/CN=system:node:$node" ca "subjectAltName = IP:$node_ip, DNS:$node"
    certificate front-client /CN=front-client front-ca
    certificate controller-manager /CN=system:kube-controller-manager ca
    certificate scheduler /CN=system:kube-scheduler ca
    certificate proxy /CN=system:kube-proxy ca
    certificate netpol /CN=sandbox-kube:netpol ca
    certificate admin /O=system:masters/CN=admin ca
    for name in kubelet controller-manager scheduler proxy netpol; do
        access "$name" "$state/pki/$name.kubeconfig"
    done
    access admin "$kubeconfig"
    chmod 600 "$kubeconfig"

    cat >"$state/containerd.toml" <<EOF
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "$state/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "docker.io/sandbox-kube/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "$state/bin/runc"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "$state/cni"
EOF
    # Every pod has an interface of its own on the node: what one sends to
    # another is routed, and so passes the firewall that policies are written to.
    cat >"$state/cni/10-pods.conflist" <<EOF
{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni-addresses",
        "ranges": [[{"subnet": "$pod_range"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
EOF
    cat >"$state/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node_ip
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $state/pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: $state/pki/kubelet.crt
tlsPrivateKeyFile: $state/pki/kubelet.key
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
containerRuntimeEndpoint: unix://$state/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
failSwapOn: false
resolvConf: ""
clusterDomain: cluster.local
volumePluginDir: /var/lib/kubelet/volume-plugins
# Images are imported and cannot be fetched again: the node keeps them.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
maxPods: 400
registryPullQPS: 0
# As clusters should have it: nothing else bounds the processes of a pod.
podPidsLimit: 1024
kubeAPIQPS: 200
kubeAPIBurst: 400
serializeImagePulls: false
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 16
oomScoreAdj: 0
featureGates: {ImageVolume: true}
EOF
    cat >"$state/proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $state/pki/proxy.kubeconfig}
bindAddress: $node_ip
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
clusterCIDR: $pod_range
mode: iptables
oomScoreAdj: 0
# These are settings of the whole machine.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
EOF
    pause_image
}

# pause_image packs the program that holds a pod's namespaces as docker save would.
pause_image() (
    mkdir "$state/images/pause"
    cd "$state/images/pause"
    cp "$state/bin/pause" pause
    tar --owner=0 --group=0 --numeric-owner --mtime=@0 -cf layer.tar pause
    case $(uname -m) in aarch64) arch=arm64 ;; *) arch=amd64 ;; esac
    cat >config.json <<EOF
{"architecture": "$arch", "os": "linux", "config": {"Entrypoint": ["/pause"], "User": "65535:65535"}, "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum layer.tar | cut -d' ' -f1)"]}}
EOF
    echo '[{"Config": "config.json", "RepoTags": ["sandbox-kube/pause:1"], "Layers": ["layer.tar"]}]' >manifest.json
    tar -cf ../pause.tar manifest.json config.json layer.tar
    cd ..
    rm -r pause
)

kubectl() { "$state/bin/kubectl" --kubeconfig "$kubeconfig" "$@"; }

# born prints when a process started, which with its number identifies it.
born() { awk '{ sub(/.*\) /, ""); print $20 }' "/proc/$1/stat" 2>/dev/null; }

# first prints the first process of the node, as the machine numbers it, if it runs.
first() {
    [ -e "$state/process" ] || return 1
    read -r pid start <"$state/process"
    [ "$(born "$pid")" = "$start" ] || return 1
    echo "$pid"
}

# controllers prints the root of every hierarchy of control groups: one with
# version 2, one for each controller with version 1.
controllers() {
    if [ -e /sys/fs/cgroup/cgroup.procs ]; then
        echo /sys/fs/cgroup
        return
    fi
    for folder in /sys/fs/cgroup/*; do
        [ ! -e "$folder/cgroup.procs" ] || echo "$folder"
    done
}

# join_cgroups puts a process into a control group beside those of the pods.
join_cgroups() {
    if [ -e /sys/fs/cgroup/cgroup.subtree_control ]; then
        for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
            echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || : # what is lacking, the kubelet names
        done
    fi
    for folder in $(controllers); do
        for group in "$cgroup" "$cgroup/node"; do
            mkdir -p "$folder/$group"
            # Version 1 starts with no processors and no memory.
            for file in cpuset.cpus cpuset.mems; do
                [ ! -e "$folder/$file" ] || cat "$folder/$file" >"$folder/$group/$file"
            done
        done
        echo "$1" >"$folder/$cgroup/node/cgroup.procs"
    done
}

remove_cgroups() {
    for folder in $(controllers); do
        [ ! -d "$folder/$cgroup" ] || find "$folder/$cgroup" -depth -type d -exec rmdir {} +
    done
}

# wait_for SECONDS WHAT COMMAND... repeats a command until it succeeds.
wait_for() {
    end=$(($(date +%s) + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        first >/dev/null || fail "the node ended" "see its logs in $state/log"
        [ "$(date +%s)" -lt "$end" ] || {
            "$@" >&2 || :
            fail "the cluster has no $what" "see its logs in $state/log"
        }
        sleep 0.2
    done
}

start() {
    kubelet=with
    case ${1-} in
    '') ;;
    --without-kubelet) kubelet=without ;;
    *) usage ;;
    esac
    [ "$(id -u)" -eq 0 ] || fail "a node needs root" "run this as root"
    want etcd etcd-server
    want openssl openssl
    want ip iproute2
    want nsenter util-linux
    if [ $kubelet = with ]; then
        want iptables iptables
        want ipset ipset
        want conntrack conntrack
        [ -x /usr/lib/cni/ptp ] || missing="$missing containernetworking-plugins"
    fi
    install_missing
    build

    lock
    if first >/dev/null; then
        kubelet=$(cat "$state/kubelet-runs")
    else
        clean
        make_node
    fi
    await_node
    say "the cluster is ready; its kubeconfig is $kubeconfig"
}

# lock lets one start or stop of this cluster run at a time, until this process ends.
lock() {
    mkdir -p "${state%/*}"
    while :; do
        exec 9>"$state.lock"
        flock 9
        # Whoever held it may have removed the file.
        [ "$(stat -L -c %i /proc/self/fd/9)" != "$(stat -c %i "$state.lock" 2>/dev/null)" ] || return 0
    done
}

make_node() {
    write_state
    echo $kubelet >"$state/kubelet-runs"
    setsid unshare --net --mount --pid --fork --kill-child --propagation slave --mount-proc \
        "$here/kube.sh" --number "$number" --state "$state" be-node $kubelet >"$state/log/node.log" 2>&1 9<&- </dev/null &
    outer=$!
    until pid=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null) && [ -n "$pid" ]; do
        [ -d "/proc/$outer" ] || { cat "$state/log/node.log" >&2 && fail "the namespaces of the node could not be made"; }
        sleep 0.02
    done
    pid=${pid% }
    echo "$pid $(born "$pid")" >"$state/process"
    join_cgroups "$pid"
    ip link add "$link" type veth peer name eth0 netns "$pid"
    ip address add "$machine_ip/30" dev "$link"
    ip link set "$link" up
    ip route add "$pod_range" via "$node_ip"
    ip route add "$service_range" via "$node_ip"
}

await_node() {
    wait_for 120 "API server that is ready" kubectl get --raw /readyz
    kubectl apply -f - >/dev/null <<'EOF'
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "sandbox-kube:netpol"}
rules:
- apiGroups: [""]
  resources: [pods, namespaces, nodes]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "sandbox-kube:netpol"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "sandbox-kube:netpol"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "sandbox-kube:netpol"}
EOF
    wait_for 60 "service account" kubectl get serviceaccount default
    if [ $kubelet = with ]; then
        wait_for 60 "containerd" containerd_images version
        containerd_images images import "$state/images/pause.tar" >/dev/null
        wait_for 120 "node that is ready" kubectl wait --for=condition=Ready "node/$node" --timeout=1s
        wait_for 60 "firewall for network policies" in_node iptables -w -n -L KUBE-ROUTER-FORWARD
    fi
}

containerd_images() { "$state/bin/ctr" --address "$state/containerd.sock" --namespace k8s.io "$@"; }

in_node() {
    pid=$(first) || fail "the cluster does not run"
    nsenter --target "$pid" --mount --net --pid -- "$@"
}

# import prints the name of each image by its digest.
import() {
    [ $# -gt 0 ] || usage
    first >/dev/null || fail "the cluster does not run"
    for image; do
        id=$(docker image inspect --format '{{.Id}}' "$image") || fail "the engine has no image $image"
        case $image in
        *:*) tagged=$image ;;
        *) tagged=$image:latest ;;
        esac
        case $tagged in
        *.*/* | *:*/* | localhost/*) ;;
        */*) tagged=docker.io/$tagged ;;
        *) tagged=docker.io/library/$tagged ;;
        esac
        known=$state/images/$(echo "$tagged" | tr / _)
        ( # one import of an image at a time: tests of several packages ask for the same ones
            flock 9
            if [ "$(cat "$known" 2>/dev/null)" != "$id" ]; then
                docker save --output "$known.tar" "$image"
                containerd_images images import "$known.tar" >&2
                rm "$known.tar"
                echo "$id" >"$known"
            fi
        ) 9>"$known.lock"
        digest=$(containerd_images images list "name==$tagged" | awk 'NR == 2 { print $3 }')
        [ -n "$digest" ] || fail "the node has no image $tagged" "give the name as the engine lists it"
        containerd_images images tag --force "$tagged" "${tagged%:*}@$digest" >/dev/null
        echo "${tagged%:*}@$digest"
    done
}

# --- stop -----------------------------------------------------------------------

# clean ends the node, if it runs, and removes what is left of it.
clean() {
    if pid=$(first); then
        kill -KILL "$pid"
        end=$(($(date +%s) + 30))
        while first >/dev/null; do
            [ "$(date +%s)" -lt "$end" ] || fail "process $pid does not end"
            sleep 0.05
        done
    fi
    ip link delete "$link" 2>/dev/null || :
    tries=50
    until remove_cgroups 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { remove_cgroups || fail "control groups of the node stay"; }
        sleep 0.1
    done
    if grep -q " $state[/ ]" /proc/self/mountinfo; then
        fail "there are mounts below $state" "unmount them, then repeat"
    fi
    rm -rf --one-file-system "$state"
}

stop() {
    [ -e "$state" ] || [ -e "$state.lock" ] || return 0
    [ "$(id -u)" -eq 0 ] || fail "a node needs root" "run this as root"
    lock
    clean
    rm -f "$state.lock"
    [ "${state%/*}" != /var/lib/sandbox-kube ] || rmdir /var/lib/sandbox-kube 2>/dev/null || :
}

status() {
    pid=$(first) || fail "the cluster does not run"
    echo "process:    $pid"
    echo "kubeconfig: $kubeconfig"
    kubectl get nodes -o wide
}

signal() {
    [ $# -eq 2 ] || usage
    [ -e "$state/pids/$1" ] || fail "the cluster has no program $1"
    in_node sh -c "kill -s $2 $(cat "$state/pids/$1")"
}

command=${1-}
[ $# -eq 0 ] || shift
case $command in
build) build ;;
start) start "$@" ;;
stop) stop ;;
status) status ;;
import) import "$@" ;;
run) in_node "$@" ;;
signal) signal "$@" ;;
be-node) be_node "$@" ;;
*) usage ;;
esac

"""A small program that nobody should trust.

It does the work it was given: it counts primes and writes the answer into the
workspace. Beside that it tries what a bad program would: it looks for
credentials, calls home, writes where it should not, and reaches for
privileges. Everything that it gets hold of goes into the workspace too, so
that the host can look for its own secrets there.

    python3 - SECRET VICTIM FOLDER

names a file of the host that everybody may read, one that everybody may
write, and a folder in which everybody may make files.
"""

import ctypes
import os
import socket
import sys

secret, victim, folder = sys.argv[1:4]
loot = []


def report(name, tries):
    """Make every try and print one line: what worked, or why nothing did."""
    worked, reasons = [], []
    for what, do in tries:
        try:
            got = do()
        except Exception as e:
            reason = getattr(e, "strerror", None) or str(e) or type(e).__name__
            if reason not in reasons:
                reasons.append(reason)
        else:
            worked.append(what)
            loot.append(f"{what}: {got!r}")
    if worked:
        text = "worked: " + ", ".join(worked)
    else:
        text = "; ".join(reasons)
    print(f"{name}\t{text}", flush=True)


def primes_below(n):
    sieve = bytearray([1]) * n
    sieve[0:2] = b"\0\0"
    for i in range(2, int(n**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, n, i)))
    return sum(sieve)


def read(path):
    return path, lambda: open(path, "rb").read(4096)


def write(path, mode="ab"):
    def do():
        with open(path, mode) as f:
            f.write(b"written by the untrusted program\n")

    return path, do


def through_link(path):
    """Reach path by a symbolic link in the workspace."""

    def do():
        link = "/workspace/link"
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(path, link)
        with open(link, "ab") as f:
            f.write(b"written through a link\n")

    return "link to " + path, do


def connect(host, port):
    return f"{host}:{port}", lambda: socket.create_connection((host, port), 2).close()


libc = ctypes.CDLL(None, use_errno=True)


def call(what, *args):
    def do():
        if getattr(libc, what)(*args) != 0:
            no = ctypes.get_errno()
            raise OSError(no, os.strerror(no))

    return what, do


def unix(path):
    def do():
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(2)
        s.connect(path)

    return path, do


count = primes_below(200_000)
with open("/workspace/result.txt", "w") as f:
    f.write(f"primes below 200000: {count}\n")
print(f"compute\t{count} primes below 200000", flush=True)

up = "/workspace/" + "../" * 12
report("credentials", [
    read(secret), read(up + secret), read("/proc/1/root" + secret), read("/proc/1/environ"),
    read("/etc/shadow"), read("/root/.ssh/id_rsa"), read("/root/.aws/credentials"),
    read(os.path.expanduser("~/.ssh/id_ed25519")), read(os.path.expanduser("~/.docker/config.json")),
])
loot.extend(f"{k}={v}" for k, v in os.environ.items())
print(f"environment\t{len(os.environ)} variables: {' '.join(sorted(os.environ))}", flush=True)

report("engine socket", [unix("/var/run/docker.sock"), unix("/run/docker.sock"), unix("/run/containerd/containerd.sock")])

report("network", [
    connect("1.1.1.1", 443), connect("169.254.169.254", 80), connect("172.17.0.1", 22),
    ("look up example.com", lambda: socket.getaddrinfo("example.com", 443)),
    ("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    ("AF_VSOCK", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)),
])

report("write outside", [
    write(victim), write(up + victim), write("/proc/1/root" + victim), through_link(victim),
    write(folder + "/new"), through_link(folder + "/new"),
    write("/etc/passwd"), write("/usr/bin/python3"), write("/escape", "wb"), write("/.sandbox/bin/sandbox-guest"),
    write("/proc/sys/kernel/core_pattern"), write("/proc/sysrq-trigger"),
])

report("privileges", [
    ("setuid 0", lambda: os.setuid(0)), ("setgid 0", lambda: os.setgid(0)), ("setgroups", lambda: os.setgroups([0])),
    call("unshare", 0x10000000), call("unshare", 0x00020000), call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    ("mknod", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(8, 0))),
    ("chroot", lambda: os.chroot("/tmp")), call("ptrace", 16, 1, 0, 0),
    ("signal the first process", lambda: os.kill(1, 9)),
])

with open("/workspace/loot.txt", "w") as f:
    f.write("\n".join(loot) + "\n")

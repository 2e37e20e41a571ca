//go:build linux

package probe

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func networkProbes() map[string]probe {
	return map[string]probe{
		"raw-socket":     rawSockets,
		"packet-socket":  packetSocket,
		"vsock":          vsock,
		"af-alg":         cryptoSocket,
		"rare-sockets":   rareSockets,
		"interfaces":     interfaces,
		"metadata":       metadata,
		"internet":       internet,
		"dns":            dns,
		"gateway":        gateway,
		"network-change": networkChange,
	}
}

func socket(family, kind, proto int) func() error {
	return func() error { return opened(unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)) }
}

func rawSockets([]string) verdict {
	return each(
		try{"ICMP", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		try{"IP", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)},
		try{"ICMPv6", socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)},
	)
}

func packetSocket([]string) verdict {
	const allProtocols = 0x0300 // ETH_P_ALL in network order
	return each(
		try{"raw", socket(unix.AF_PACKET, unix.SOCK_RAW, allProtocols)},
		try{"datagram", socket(unix.AF_PACKET, unix.SOCK_DGRAM, allProtocols)},
	)
}

// vsock asks for the channel between a virtual machine and its host, which
// belongs to no network namespace.
func vsock([]string) verdict {
	return each(try{"stream", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)}, try{"datagram", socket(unix.AF_VSOCK, unix.SOCK_DGRAM, 0)})
}

func cryptoSocket([]string) verdict {
	return each(try{"AF_ALG", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)})
}

// rareSockets tries every family but those that programs need.
func rareSockets([]string) verdict {
	var tries []try
	for family := 3; family <= 46; family++ {
		switch family {
		case unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK, unix.AF_ALG:
			continue // needed, or an attempt of its own
		}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			tries = append(tries, try{"family " + itoa(family), socket(family, kind, 0)})
		}
	}
	return each(tries...)
}

func interfaces([]string) verdict {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return skip("/proc/net/dev: ", reason(err))
	}
	var others []string
	for line := range strings.SplitSeq(string(text), "\n") {
		name, _, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "lo" || idleTunnel(name) {
			continue
		}
		others = append(others, strconv.QuoteToASCII(name))
	}
	if len(others) > 0 {
		return broke("interfaces beside lo: ", strings.Join(others, ", "))
	}
	return held("only lo")
}

// idleTunnel reports whether name is one of the tunnels that some kernels
// put into every network namespace, down and without address.
func idleTunnel(name string) bool {
	switch name {
	case "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0":
		flags, err := os.ReadFile("/sys/class/net/" + name + "/flags")
		if err != nil {
			return false
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(flags)), 0, 32)
		return err == nil && n&unix.IFF_UP == 0
	}
	return false
}

// A route tries connections. Where a firewall refuses them, a refusal says nothing
// about a peer.
type route struct{ firewalled bool }

// routeOf is the route of a probe with these arguments. The word "firewall" says that
// one is before the sandbox; it refuses what it closes if it refuses an address that
// no host has (TEST-NET-1 of RFC 5737).
func routeOf(args []string) route {
	return route{len(args) > 0 && args[0] == "firewall" &&
		connect(unix.AF_INET, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{192, 0, 2, 1}}) == unix.ECONNREFUSED}
}

// result takes a refusal by the other side for reached, because a peer sent it.
func (r route) result(err error) error {
	if !r.firewalled && (err == unix.ECONNREFUSED || err == unix.ECONNRESET) {
		return nil
	}
	return err
}

// reach tries to connect by TCP within 1.5 s.
func (r route) reach(what string, ip [4]byte, port int) try {
	return try{what + ":" + itoa(port), func() error {
		return r.result(connect(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: ip}))
	}}
}

func (r route) reach6(what string, ip [16]byte, port int) try {
	return try{what + ":" + itoa(port), func() error {
		return r.result(connect(unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: ip}))
	}}
}

// connect opens a TCP connection and closes it again.
func connect(family int, addr unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, addr)
	if err == unix.EINPROGRESS {
		if n, perr := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 1500); perr != nil || n == 0 {
			return unix.ETIMEDOUT
		}
		no, gerr := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if gerr != nil {
			return gerr
		}
		err = errnoOf(unix.Errno(no))
	}
	return err
}

// metadata tries the addresses at which clouds hand out credentials.
func metadata(args []string) verdict {
	by := routeOf(args)
	return each(
		by.reach("169.254.169.254", [4]byte{169, 254, 169, 254}, 80),
		by.reach("169.254.170.2", [4]byte{169, 254, 170, 2}, 80),
		by.reach("100.100.100.200", [4]byte{100, 100, 100, 200}, 80),
		by.reach6("[fd00:ec2::254]", [16]byte{0xfd, 0x00, 0x0e, 0xc2, 14: 0x02, 15: 0x54}, 80),
	)
}

func internet(args []string) verdict {
	by := routeOf(args)
	return each(
		by.reach("1.1.1.1", [4]byte{1, 1, 1, 1}, 443),
		by.reach("8.8.8.8", [4]byte{8, 8, 8, 8}, 53),
		by.reach6("[2606:4700:4700::1111]", [16]byte{0x26, 0x06, 0x47, 0x00, 0x47, 0x00, 14: 0x11, 15: 0x11}, 443),
	)
}

// dns sends a query to the configured servers and to two public ones. DNS can
// carry data out even where nothing else can.
func dns([]string) verdict {
	servers := []string{"1.1.1.1", "8.8.8.8", "127.0.0.11"}
	text, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.SplitSeq(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			servers = append(servers, f[1])
		}
	}
	var tries []try
	for _, s := range servers {
		if ip, ok := parseIPv4(s); ok {
			tries = append(tries, try{s, func() error { return query(ip) }})
		}
	}
	return each(tries...)
}

func parseIPv4(s string) (ip [4]byte, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return ip, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 8)
		if err != nil {
			return ip, false
		}
		ip[i] = byte(n)
	}
	return ip, true
}

// query asks for the address of example.com and waits 1.5 s for any answer.
func query(ip [4]byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 53, Addr: ip}); err != nil {
		return err
	}
	q := []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01")
	if _, err := unix.Write(fd, q); err != nil {
		return err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1, Usec: 500_000})
	n, err := unix.Read(fd, make([]byte, 512))
	if err == nil && n == 0 {
		err = unix.ENODATA
	}
	return err
}

// gateway tries services of the host at the address that leads out, and at
// those that engines give to their bridges.
func gateway(args []string) verdict {
	by := routeOf(args)
	addrs := map[string][4]byte{"172.17.0.1": {172, 17, 0, 1}, "172.18.0.1": {172, 18, 0, 1}, "10.0.2.2": {10, 0, 2, 2}}
	text, _ := os.ReadFile("/proc/net/route")
	for line := range strings.SplitSeq(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "00000000" {
			continue
		}
		if n, err := strconv.ParseUint(f[2], 16, 32); err == nil {
			var ip [4]byte
			binary.NativeEndian.PutUint32(ip[:], uint32(n))
			addrs["the gateway"] = ip
		}
	}
	var tries []try
	for name, ip := range addrs {
		for _, port := range []int{22, 80, 2375, 2376} {
			tries = append(tries, by.reach(name, ip, port))
		}
	}
	return each(tries...)
}

// networkChange asks the kernel to set up a loopback alias address, as the
// first step to a network of one's own.
func networkChange([]string) verdict {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return held("socket: ", reason(err))
	}
	defer unix.Close(fd)
	set := func(request uint, fill func(*unix.Ifreq)) func() error {
		return func() error {
			ifr, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			fill(ifr)
			return ioctlIfreq(fd, request, ifr)
		}
	}
	return each(
		try{"address", set(unix.SIOCSIFADDR, func(r *unix.Ifreq) { _ = r.SetInet4Addr([]byte{127, 0, 0, 2}) })},
		try{"flags", set(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) { r.SetUint16(unix.IFF_UP | unix.IFF_PROMISC) })},
		try{"TUN device", func() error { return openable("/dev/net/tun", unix.O_RDWR) }},
	)
}

func ioctlIfreq(fd int, request uint, r *unix.Ifreq) error {
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(r)))
	return errnoOf(no)
}

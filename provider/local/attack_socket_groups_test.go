//go:build linux

package local_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketGroup tries to reach what listens on the host.
func socketGroup() group {
	return group{name: "sockets", layouts: []layout{listeners}, attempts: []attempt{
		{name: "socket-workspace", script: tried("dial unix $WS/host.sock", "dial unix host.sock", "dial unix $AGENT/host.sock")},
		{name: "socket-allow-read", script: tried("dial unix $READ/host.sock")},
		{name: "socket-allow-write", script: tried("dial unix $WRITE/host.sock")},
		{name: "socket-outside", script: tried("dial unix $OUT/host.sock", "dial unix /proc/self/root$OUT/host.sock", "dial unix $WS/../outside/host.sock")},
		{name: "socket-symlink", script: `ln -s host.sock ls; ln -s $OUT/host.sock lo; ` + tried("dial unix ls", "dial unix lo")},
		{name: "socket-hard-link", script: `ln host.sock lh; mv host.sock lm; ` + tried("dial unix lh", "dial unix lm")},
		{name: "socket-descriptor", script: tried("connect-at host.sock", "connect-at $READ/host.sock", "connect-at $AGENT/host.sock")},
		{name: "socket-datagram", script: tried("send-datagram host.dgram", "send-datagram $READ/host.dgram", "send-datagram $AGENT/host.dgram")},
		{name: "socket-pair", script: tried("pair-connect host.sock host.dgram $READ/host.dgram $READ/host.sock host.packet")},
		{name: "socket-swapped", script: tried("swap-connect $WS/host.sock") + `rm -f own.sock way other; ` + tried("swap-connect $READ/host.sock")},
		{name: "socket-passed", script: tried("pass-connect $WS/host.sock", "pass-connect $AGENT/host.sock", "pass-connect $READ/host.sock")},
		{name: "socket-over-own", script: `$TOOL attempt dial unix nothing; perl -MIO::Socket::UNIX -e 'my $l=IO::Socket::UNIX->new(Local=>"mine",Listen=>1) or die "$!"; rename("host.sock","aside"); rename("mine","host.sock"); rename("aside","mine"); exec @ARGV' $TOOL attempt dial unix mine`},
		{name: "socket-abstract", script: tried("dial unix @$ABSTRACT", "send-datagram @$ABSTRACT", "pair-connect @$ABSTRACT")},
		{name: "socket-engine", script: `for p in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock /run/dbus/system_bus_socket /run/user/0/bus /tmp/.X11-unix/X0 /run/systemd/private; do test -e $p && echo WORKED $p is there; $TOOL attempt dial unix $p && echo WORKED $p; done; ` + probed("engine-socket", "other-sockets"), control: nowhere, why: "it would speak to services of this machine"},
		{name: "socket-tools", script: `perl -MIO::Socket::UNIX -e 'my $s=IO::Socket::UNIX->new(Peer=>$ARGV[0]) or die "$!"; print $s "hi"' host.sock; perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0) or die "$!"; connect(S,pack_sockaddr_un($ARGV[0])) or die "$!"; syswrite S,"hi"' $READ/host.sock`},
		{name: "network-loopback", script: tried("dial tcp 127.0.0.1:$TCP", "dial tcp localhost:$TCP", "dial tcp 127.1.2.3:$TCP") + `exec 3<>/dev/tcp/127.0.0.1/$TCP`},
		{name: "network-loopback-6", script: tried("dial tcp [::1]:$TCP6", "dial tcp [::ffff:127.0.0.1]:$TCP")},
		{name: "network-udp", script: tried("dial udp 127.0.0.1:$UDP", "dial udp [::ffff:127.0.0.1]:$UDP") + `echo x >/dev/udp/127.0.0.1/$UDP`},
		{name: "network-host-address", script: `for a in $ADDRESSES; do $TOOL attempt dial tcp $a; done`},
		{name: "network-raw", script: probed("raw-socket", "packet-socket"), control: asRoot},
		{name: "network-rare", script: probed("vsock", "af-alg", "rare-sockets"), control: onHost},
		{name: "network-netlink", script: tried("add-address") + probed("network-change") + `ip link add d0 type dummy && echo WORKED; ip link set lo down && echo WORKED`, control: nowhere, why: "it would change this machine"},
		{name: "network-out", script: probed("interfaces", "metadata", "internet", "dns", "gateway"), control: nowhere, why: "it would leave this machine"},
		{name: "keyring-user", before: plantKey, script: tried("host-key attack") + `keyctl show @u; keyctl show @s; cat /proc/keys`},
		{name: "terminal-type", tty: true, script: tried("tiocsti", "tioclinux"), control: nowhere, why: "kernels may have it switched off"},
		{name: "terminal-host", tty: true, script: tried("terminal"), control: nowhere, why: "it would type into terminals of this machine"},
	}}
}

// listeners are services of the host. Each contact is counted.
func listeners(s *fixture) {
	s.must(os.Chmod(s.outside, 0o755))
	for _, dir := range []string{s.agent, s.read, s.write, s.outside} {
		s.listen("unix", dir+"/host.sock")
		s.hear("unixgram", dir+"/host.dgram")
	}
	s.listen("unixpacket", s.agent+"/host.packet")
	abstract := "sandbox-attack-" + randomText()
	s.listen("unix", "@"+abstract)
	tcp := s.listen("tcp4", "0.0.0.0:0")
	tcp6 := s.listen("tcp6", "[::1]:0")
	udp := s.hear("udp4", "127.0.0.1:0")
	addresses := ""
	all, err := net.InterfaceAddrs()
	s.must(err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			addresses += n.IP.String() + ":" + port(tcp) + " "
		}
	}
	s.envs = append(s.envs, "ABSTRACT="+abstract, "TCP="+port(tcp), "TCP6="+port(tcp6), "UDP="+port(udp), "ADDRESSES="+addresses)
}

// dialer reaches a socket also when an attempt has moved it away.
func (s *fixture) dialer(a net.Addr) func() (net.Conn, error) {
	s.Helper()
	network, name := a.Network(), a.String()
	if !strings.HasPrefix(network, "unix") || name[0] == '@' {
		return func() (net.Conn, error) { return net.Dial(network, name) }
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	s.must(err)
	f := os.NewFile(uintptr(fd), name)
	s.Cleanup(func() { f.Close() })
	return func() (net.Conn, error) { return net.Dial(network, fmt.Sprintf("/proc/self/fd/%d", int(f.Fd()))) }
}

// listen counts who connects.
func (s *fixture) listen(network, addr string) net.Addr {
	s.Helper()
	l, err := net.Listen(network, addr)
	if err != nil && network == "tcp6" {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
	}
	s.must(err)
	if network[:4] == "unix" && addr[0] != '@' {
		s.must(os.Chmod(addr, 0o777))
	}
	s.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.contacts.Add(1)
			c.Close()
		}
	}()
	// Who connects waits in a queue, and ours is let go of when all before it
	// were counted.
	dial := s.dialer(l.Addr())
	s.ears = append(s.ears, func() bool {
		c, err := dial()
		if err != nil {
			return true // it is closed
		}
		defer c.Close()
		s.must(c.SetDeadline(time.Now().Add(patience)))
		if _, err = c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		s.contacts.Add(-1)
		return true
	})
	return l.Addr()
}

// hear counts datagrams.
func (s *fixture) hear(network, addr string) net.Addr {
	s.Helper()
	l, err := net.ListenPacket(network, addr)
	s.must(err)
	if network == "unixgram" {
		s.must(os.Chmod(addr, 0o777))
	}
	s.Cleanup(func() { l.Close() })
	ours, heard, dial := randomText(), make(chan struct{}, 1), s.dialer(l.LocalAddr())
	go func() {
		defer close(heard)
		b := make([]byte, 64)
		for {
			n, _, err := l.ReadFrom(b)
			switch {
			case err != nil:
				return
			case string(b[:n]) == ours:
				heard <- struct{}{}
			default:
				s.contacts.Add(1)
			}
		}
	}()
	s.ears = append(s.ears, func() bool { // what comes after all others
		c, err := dial()
		if err == nil {
			defer c.Close()
			_, err = c.Write([]byte(ours))
		}
		if err != nil {
			return true // as above
		}
		select {
		case <-heard:
			return true
		case <-time.After(patience):
			return false
		}
	})
	return l.LocalAddr()
}

// plantKey gives the sandbox's user a key in the keyring that all his processes
// have, whatever namespaces they are in.
func plantKey(s *fixture) {
	cmd := exec.Command(s.kit.tool, "attempt", "add-host-key", "attack", s.token)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.kit.uid), Gid: uint32(s.kit.uid)}}
	}
	s.must(cmd.Run())
}

// listedGroup has one socket listed, for which commands may make sockets: the
// others are closed by masks alone.
func listedGroup() group {
	listed := func(s *fixture) {
		s.spec.Filesystem.AllowUnixSockets = []string{s.outside + "/host.sock"}
		for of, name := range map[string]string{s.agent + "/host.sock": s.agent + "/planted.sock", s.outside + "/host.dgram": s.agent + "/planted.dgram"} {
			s.must(os.Link(of, name))
		}
	}
	shut := func(s *fixture) { s.listen("unix", s.agent+"/frozen/s"); s.listen("unix", s.write+"/deploy/s") }
	return group{name: "listed", layouts: []layout{listeners, shut, listed}, attempts: []attempt{
		{name: "listed-others", script: tried("dial unix host.sock", "dial unix $AGENT/host.sock", "dial unix $READ/host.sock", "dial unix $WRITE/host.sock", "send-datagram host.dgram", "send-datagram $READ/host.dgram", "pair-connect host.packet host.dgram $WRITE/host.dgram")},
		{name: "listed-closed-for-writing", script: tried("dial unix frozen/s", "dial unix $AGENT/frozen/s", "dial unix $WRITE/deploy/s", "connect-at frozen/s")},
		{name: "listed-links-before", script: tried("dial unix planted.sock", "send-datagram planted.dgram", "connect-at planted.sock")},
		{name: "listed-links-during", script: `ln -s host.sock ls; ln host.sock lh; mv host.sock lm; ln $READ/host.sock $WRITE/lh; ` + tried("dial unix ls", "dial unix lh", "dial unix lm", "dial unix $WRITE/lh", "connect-at host.sock", "connect-at $READ/host.sock")},
		{name: "listed-moved", script: `mkdir d; mv host.* d/; mv $WRITE $WRITE.x; ` + tried("dial unix d/host.sock", "dial unix $WRITE.x/host.sock", "exchange readme host.sock", "dial unix readme")},
		{name: "listed-abstract", script: tried("dial unix @$ABSTRACT", "send-datagram @$ABSTRACT")},
		{name: "listed-appeared", before: func(s *fixture) {
			path := s.agent + "/appeared" + randomText()[:4] + ".sock"
			s.listen("unix", path)
			s.envs = append(s.envs, "APPEARED="+path)
		}, script: tried("dial unix $APPEARED")},
		{name: "listed-vsock", script: probed("vsock", "af-alg", "packet-socket", "raw-socket", "rare-sockets"), control: asRoot},
	}}
}

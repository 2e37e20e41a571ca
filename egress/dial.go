// This file connects to a host that a policy has allowed: it looks the name up
// once, has every address judged, and dials only allowed addresses.

package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Defaults of DialerOptions, and bounds.
const (
	defaultLookupTimeout = 10 * time.Second
	defaultDialTimeout   = 15 * time.Second
)

const (
	// maxAnswers bounds the used answers of one lookup.
	maxAnswers = 1024
	// maxAddrs bounds the addresses tried for one connection.
	maxAddrs = 8
	// headStart is the delay before the next address is tried in parallel (RFC
	// 8305).
	headStart = 300 * time.Millisecond
)

// A Resolver looks up names; *net.Resolver implements it. A lookup has to end
// when ctx does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialerOptions configure a Dialer. The zero value uses the resolver of the
// system and no proxy.
type DialerOptions struct {
	Resolver Resolver
	// Dial connects by TCP. RemoteAddr of the connection has to be the
	// requested address.
	Dial          func(context.Context, netip.AddrPort) (net.Conn, error)
	Own           func(netip.Addr) bool // reports an address of this machine; nil: asks the kernel
	Upstream      *Upstream             // nil: directly
	LookupTimeout time.Duration         // zero: 10 s
	DialTimeout   time.Duration         // for all addresses of a host and the upstream proxy's handshake; zero: the default
}

// A Dialer connects to allowed hosts. It is safe for concurrent use.
type Dialer struct{ options DialerOptions }

// NewDialer returns a Dialer.
func NewDialer(o DialerOptions) *Dialer {
	if o.Resolver == nil {
		o.Resolver = &net.Resolver{PreferGo: true} // the cgo resolver blocks a thread for each pending lookup
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Own == nil {
		o.Own = isOwn
	}
	if o.LookupTimeout <= 0 {
		o.LookupTimeout = defaultLookupTimeout
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = defaultDialTimeout
	}
	return &Dialer{o}
}

// A judgeAddr decides whether an address may be dialled;
// [network.Policy.JudgeAddr] is one.
type judgeAddr func(netip.Addr, uint16) network.Decision

// Dial connects to a host whose name was allowed. A name is looked up once, as
// an absolute one, so that no search list can turn it into another host (nor,
// with the resolver of the system, the hosts file for a name without a dot).
// An address is not looked up, nor is localhost (RFC 6761), which is 127.0.0.1
// and ::1. Every answer is judged. Answers that judge does not allow are left
// out, and at most 8 allowed ones are dialled, in parallel if they are slow.
// If an upstream proxy applies to the host, the proxy is asked for the same
// addresses, never for the name. An address of the orchestrator's own machine
// has to be allowed as a loopback address too.
//
// The returned address is that of the host. The connection is a *net.TCPConn,
// or a *tls.Conn for an https proxy, unless DialerOptions.Dial returns others.
//
// Errors are *dialRefused, *dialUnresolved or *dialUnreachable. Text from
// the host or a name server occurs in them only quoted.
func (r *Dialer) Dial(ctx context.Context, h network.Host, port uint16, judge judgeAddr) (net.Conn, netip.AddrPort, error) {
	answers, err := r.answers(ctx, h)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	targets, refused := vet(answers, port, judge)
	if len(targets) > 0 {
		targets, refused = r.notOurs(h, order(targets), judge)
	}
	if len(targets) == 0 {
		return nil, netip.AddrPort{}, refused
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.DialTimeout)
	defer cancel()
	conn, at, err := race(ctx, targets, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if p := r.options.Upstream.choose(h, to); p != nil {
			return r.through(ctx, p, to)
		}
		return r.direct(ctx, to)
	})
	if err != nil {
		return nil, at, &dialUnreachable{Host: h, Port: port, Addr: at, Timeout: dialTimedOut(err), Err: err}
	}
	return conn, at, nil
}

// answers returns the addresses of h.
func (r *Dialer) answers(ctx context.Context, h network.Host) ([]netip.Addr, error) {
	if a, ok := h.Addr(); ok {
		return []netip.Addr{a}, nil
	}
	if h.IsZero() {
		return nil, &dialUnresolved{Err: errors.New("there is no name")}
	}
	if name := h.String(); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return []netip.Addr{familyLoopback(netip.IPv4Unspecified()), familyLoopback(netip.IPv6Unspecified())}, nil
	}
	answers, err := r.lookup(ctx, h.String()+".")
	if err == nil && len(answers) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, &dialUnresolved{Host: h, Timeout: dialTimedOut(err), Err: err}
	}
	return answers, nil
}

func (r *Dialer) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.LookupTimeout)
	defer cancel()
	answers, err := r.options.Resolver.LookupNetIP(ctx, "ip", name)
	return answers[:min(len(answers), maxAnswers)], err
}

// vet returns the addresses that judge allows, each once, and the first
// refusal.
func vet(answers []netip.Addr, port uint16, judge judgeAddr) (allowed []netip.AddrPort, first *dialRefused) {
	seen := make(map[netip.Addr]bool, len(answers))
	for _, a := range answers {
		a = a.Unmap()
		if seen[a] {
			continue
		}
		seen[a] = true
		if d := judgeOne(a, port, judge); d.Verdict == policy.Allow {
			allowed = append(allowed, netip.AddrPortFrom(a, port))
		} else if first == nil {
			first = &dialRefused{Decision: d, Addr: netip.AddrPortFrom(a, port)}
		}
	}
	return allowed, first
}

func judgeOne(a netip.Addr, port uint16, judge judgeAddr) network.Decision {
	refuse := network.Decision{Verdict: policy.Deny, Rule: "address", Hint: "use the address of a host"}
	switch {
	case !a.IsValid():
		refuse.Message = "the answer to the lookup is no address"
	case a.Zone() != "":
		refuse.Message = "the address has a zone"
	case judge == nil:
		refuse.Message = "nothing judges the address"
	default:
		return judge(a, port)
	}
	return refuse
}

// direct connects to a vetted address.
func (r *Dialer) direct(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	conn, err := r.options.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	if at := remote(conn); at != to {
		_ = conn.Close()
		return nil, errors.New("the connection leads to another address than the one that was vetted")
	}
	return conn, nil
}

// remote returns the remote address of a connection.
func remote(c net.Conn) netip.AddrPort {
	t, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// dialTCP connects without delaying small writes (the default of package net),
// and with TCP keep-alive to detect unreachable hosts.
func dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 4}}
	c, err := d.DialTCP(ctx, "tcp", netip.AddrPort{}, to)
	if err != nil {
		return nil, err // a nil *net.TCPConn would be a net.Conn that is not nil
	}
	return c, nil
}

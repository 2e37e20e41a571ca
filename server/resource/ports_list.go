// This file finds the ports at which programs inside a sandbox listen.

package resource

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	// listWithin is how long the search may take, and listBytes how much it may
	// print: the guests of no sandbox can make the daemon hold more.
	listWithin, listBytes = 10 * time.Second, 1 << 20
	// listPorts is how many ports are listed.
	listPorts = 1024
)

// listScript prints the sockets that listen, and for each process its number and
// the sockets that it holds. It needs a shell, cat, ls, head and tr alone.
const listScript = `cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
for p in /proc/[0-9]*; do
held=$(ls -l "$p/fd" 2>/dev/null | while read -r line; do case $line in *"socket:["*) echo "${line##*socket:}";; esac; done | tr '\n' ' ')
[ -n "$held" ] && { echo "P ${p#/proc/} $held"; printf 'C '; head -c 4096 "$p/cmdline" 2>/dev/null | tr '\n\000' '  '; echo; }
done
:`

func (x *Ports) list(c *Call) (any, error) {
	at, err := Sandboxed(c, x.lender)
	if err != nil {
		return nil, err
	}
	var out api.PortList
	req := manager.Request{Who: at.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool("exec")}
	err = x.lender.Lend(c.Context(), req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		out.Items, err = portsOf(c.Context(), sb)
		return err
	})
	return out, err
}

// portsOf returns the ports at which programs inside sb listen.
func portsOf(ctx context.Context, sb sandbox.Sandbox) ([]api.Port, error) {
	ctx, done := context.WithTimeout(ctx, listWithin)
	defer done()
	text := bounded{most: listBytes}
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"/bin/sh", "-c", listScript}, Dir: "/", Stdout: &text})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		return nil, err
	}
	return parsePorts(text.String()), nil
}

// A bounded buffer drops what is beyond most bytes.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}

// parsePorts reads what listScript prints. All of it may be forged by programs
// inside: a line that is not understood is skipped.
func parsePorts(text string) []api.Port {
	type holder struct {
		pid     int
		command string
	}
	holders := map[string]*holder{} // by inode
	listening := map[string]api.Port{}
	var last *holder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "P ") && len(f) > 2:
			pid, err := strconv.Atoi(f[1])
			if last = nil; err != nil || pid <= 0 {
				continue
			}
			last = &holder{pid: pid}
			for _, inode := range f[2:] {
				if holders[inode] == nil {
					holders[inode] = last
				}
			}
		case strings.HasPrefix(line, "C ") && last != nil:
			last.command = strings.ToValidUTF8(strings.TrimSpace(line[2:]), "\uFFFD")
			last = nil
		case len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[0], ":"):
			if at, ok := listenAddress(f[1]); ok && len(listening) < listPorts {
				listening["["+f[9]+"]"] = api.Port{Address: at.Addr().String(), Port: int(at.Port())}
			}
		}
	}
	items := []api.Port{}
	for inode, p := range listening {
		if h := holders[inode]; h != nil {
			p.PID, p.Command = h.pid, h.command
		}
		items = append(items, p)
	}
	slices.SortFunc(items, func(a, b api.Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address), cmp.Compare(a.PID, b.PID))
	})
	return items
}

// listenAddress reads an address of /proc/net/tcp: words of four bytes in the
// order of the machine, which is little-endian on all that are supported.
func listenAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	data, err := hex.DecodeString(host)
	number, bad := strconv.ParseUint(port, 16, 16)
	if err != nil || bad != nil || number == 0 || len(data) != 4 && len(data) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(data); i += 4 {
		slices.Reverse(data[i : i+4])
	}
	addr, _ := netip.AddrFromSlice(data)
	return netip.AddrPortFrom(addr, uint16(number)), true
}

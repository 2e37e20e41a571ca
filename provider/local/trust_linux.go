package local

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/hardening"
	"github.com/bulkhead-dev/sandbox/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// trusted is [Trusted] for a wall that shows views.
func (p *Provider) trusted(program string, views []plan.View) error {
	var writable []string
	for _, v := range views {
		if v.Write {
			writable = append(writable, v.Source)
		}
	}
	return Trusted(p.o.World(), program, writable...)
}

// Trusted refuses a program of the host that code in a sandbox could have put
// there, or could exchange before the next start: it runs outside of every
// wall. That is so when the file, or a link on the way to it, lies in one of
// the writable folders, or one that the rules of w open to a sandbox.
func Trusted(w hardening.World, program string, writable ...string) error {
	canonical, via, err := hostpath.Trace(program)
	if err != nil {
		return err
	}
	for _, place := range append(via, canonical) {
		for _, dir := range slices.Concat(w.Exposed, w.Workspaces, writable) {
			if place == dir || dir == "/" || strings.HasPrefix(place, dir+"/") {
				return &sandbox.Error{
					Code: sandbox.CodeCapabilityBlocked, Op: "start", Resource: program, Field: "providerOptions.bwrap",
					Message: "it is reached through " + place + ", which code in a sandbox can write, and would run outside of every wall",
					Hint:    "install bubblewrap for the whole system, or name one in providerOptions.bwrap that no sandbox can write",
				}
			}
		}
	}
	return nil
}

// rootsAlone reports whether only root of this host can put another program in
// the place of this one: nothing inside a wall can, whatever it may write.
func rootsAlone(program string) bool {
	canonical, via, err := hostpath.Trace(program)
	if err != nil {
		return false
	}
	for _, place := range append(via, canonical) {
		for ; ; place = path.Dir(place) {
			var st unix.Stat_t
			if err := unix.Lstat(place, &st); err != nil || st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFLNK && st.Mode&0o022 != 0 {
				return false
			}
			if place == "/" {
				break
			}
		}
	}
	return true
}

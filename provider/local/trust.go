package local

import (
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// Trusted refuses a program of the host that code in a sandbox could have put
// there, or could exchange before the next start: it runs outside of every
// instance. That is so when the file, or a link on the way to it, lies in one of
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
					Message: "it is reached through " + place + ", which code in a sandbox can write, and would run outside of every sandbox",
					Hint:    "install bubblewrap for the whole system, or name one in providerOptions.bwrap that no sandbox can write",
				}
			}
		}
	}
	return nil
}

package server

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

// other is the value of labels that have no room for more values.
const other = "other"

// maxLabel is the longest value of a label, in bytes.
const maxLabel = 64

// codeLabel is a code of the table.
func codeLabel(c sandbox.Code) string {
	switch c {
	case sandbox.CodePermissionDeny, sandbox.CodeCapabilityBlocked, sandbox.CodeNotFound, sandbox.CodeBusy, sandbox.CodeUnsupported,
		sandbox.CodeDenyTool, sandbox.CodeBudgetExceeded, sandbox.CodeValidation, sandbox.CodeUnavailable, sandbox.CodeTimeout,
		sandbox.CodeExecution, sandbox.CodeInternal:
		return string(c)
	}
	return other
}

// domainLabel is a domain that there is.
func domainLabel(d grant.Domain) string {
	switch d {
	case grant.DomainFS, grant.DomainNet, grant.DomainBrowser, grant.DomainProc, grant.DomainTmp:
		return string(d)
	}
	return other
}

// resourceLabel is a kind of resource that there is.
func resourceLabel(r operation.Resource) string {
	switch r {
	case operation.ResourceCommand, operation.ResourceLine, operation.ResourceSandbox, operation.ResourceFile, operation.ResourceFolder,
		operation.ResourceHost, operation.ResourcePage, operation.ResourceProgram, operation.ResourceSpace:
		return string(r)
	}
	return other
}

// safetyLabel is a class that there is.
func safetyLabel(s grant.SafetyClass) string {
	switch s {
	case grant.SafetyLow, grant.SafetyMedium, grant.SafetyHigh:
		return string(s)
	}
	return other
}

// effectLabel is the strongest side effect of several, so that there are as
// many values as kinds and not as many as sets of them.
func effectLabel(effects []grant.SideEffect) string {
	for _, e := range [...]grant.SideEffect{
		grant.EffectProcess, grant.EffectWrite, grant.EffectFilesystem, grant.EffectNetwork, grant.EffectBrowser, grant.EffectRead,
	} {
		if slices.Contains(effects, e) {
			return string(e)
		}
	}
	if len(effects) > 0 {
		return other
	}
	return "none"
}

// nameLabel makes a name that a caller chose fit for a label: short, of
// harmless characters, and none of ours. A name that had to be changed gets a
// checksum, which distinguishes it from others like it.
func nameLabel(name string) string {
	switch {
	case name == "":
		return "none"
	case len(name) <= maxLabel && name != other && name != "none" && strings.IndexFunc(name, unsafe) < 0:
		return name
	}
	const room = maxLabel - 9
	head := strings.Map(func(r rune) rune {
		if unsafe(r) {
			return '_'
		}
		return r
	}, name[:min(len(name), room)])
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // which does not fail
	return fmt.Sprintf("%.*s~%08x", room, head, sum.Sum32())
}

// unsafe reports whether a character is not let into a label. The one that
// sets off sums is among them.
func unsafe(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-:/@+", r):
		return false
	}
	return true
}

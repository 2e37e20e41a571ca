// Package confighash determines whether two Specs describe the same sandbox.
//
// [Sum] is what a container's label holds and what it is compared with; [Diff]
// says in the words of the settings what is different. Both are pure.
package confighash

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// Sum returns the SHA-1 of s in canonical form, as 40 hex digits.
//
// Left out is what says nothing about the isolation:
//
//   - Name, which follows from the owner;
//   - Owner.Agent and Owner.Session, since in a wide scope many share one
//     sandbox;
//   - Image, the reference, since the identity ImageID counts: an image built
//     anew under the same tag is a change, a new tag for the same image is none;
//   - Limits, which are applied to each command and not to the container;
//   - Egress: the proxy, which is outside, enforces these rules for each call,
//     so that a change of them needs no new sandbox.
//
// Everything else counts, the environment and the rules for paths
// included, and Format too, so that a new layout makes every sandbox count as
// changed. The order of keys never matters, in a seccomp profile neither. The
// order of a list matters where an engine cares: mounts, setup, onStart, dns
// and extraHosts. It does not for capabilities, ulimits, tmpfs, switches, path
// rules, which are sets; nil and empty are the same.
//
// It returns [sandbox.CodeInternal] if s.Options cannot be written as JSON.
func Sum(s sandbox.Spec) (string, error) {
	b, err := json.Marshal(canonical(s))
	if err != nil {
		return "", sandbox.Errorf(sandbox.CodeInternal, "hash spec", "the Spec cannot be written as JSON: %w", err)
	}
	sum := sha1.Sum(b)
	return hex.EncodeToString(sum[:]), nil
}

// canonical returns a copy of s in which equal sandboxes are equal bytes.
func canonical(s sandbox.Spec) sandbox.Spec {
	s.Name, s.Image = "", ""
	s.Owner.Agent, s.Owner.Session = "", ""
	s.Limits = sandbox.Limits{}
	s.Egress = sandbox.EgressRules{}
	s.Security.CapDrop = capabilities(s.Security.CapDrop)
	if text, ours := seccomp.Canonical(s.Security.Seccomp); ours {
		s.Security.Seccomp = text
	} else {
		s.Security.Seccomp = canonicalJSON(s.Security.Seccomp)
	}
	s.Security.Dangerous = set(s.Security.Dangerous)
	s.Resources.Ulimits = sorted(s.Resources.Ulimits, func(a, b sandbox.Ulimit) int { return strings.Compare(a.Name, b.Name) })
	s.Tmpfs = sorted(s.Tmpfs, func(a, b sandbox.Tmpfs) int { return strings.Compare(a.Target, b.Target) })
	f := &s.Filesystem
	for _, list := range []*[]string{
		&f.AllowRead, &f.DenyRead, &f.AllowWrite, &f.DenyWrite, &f.AllowUnixSockets,
		&f.YieldRead, &f.ReopenRead, &f.ReopenWrite,
	} {
		*list = set(*list)
	}
	return s
}

// capabilities returns a set of capability names as the kernel writes them,
// without the prefix. It is never nil, since the field is always written.
func capabilities(list []string) []string {
	out := make([]string, 0, len(list))
	for _, c := range list {
		out = append(out, strings.TrimPrefix(strings.ToUpper(c), "CAP_"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// set returns list sorted and without duplicates, and nil when it is empty.
func set(list []string) []string {
	return slices.Compact(sorted(list, strings.Compare))
}

func sorted[T any](list []T, compare func(a, b T) int) []T {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, compare)
	return out
}

// canonicalJSON writes JSON text with sorted keys and without space. Text that
// is no JSON stays as it is.
func canonicalJSON(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return string(b)
}

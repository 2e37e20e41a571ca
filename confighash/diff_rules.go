package confighash

import (
	"strconv"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func (d *differ) rules(a, b sandbox.Spec) {
	f, g := a.Filesystem, b.Filesystem
	d.list("filesystem.allowRead", f.AllowRead, g.AllowRead, shrunk)
	d.list("filesystem.denyRead", f.DenyRead, g.DenyRead, grown)
	d.list("filesystem.allowWrite", f.AllowWrite, g.AllowWrite, shrunk)
	d.list("filesystem.denyWrite", f.DenyWrite, g.DenyWrite, grown)
	d.list("filesystem.allowUnixSockets", f.AllowUnixSockets, g.AllowUnixSockets, shrunk)
	d.list("network.allowedDomains", a.Egress.AllowedDomains, b.Egress.AllowedDomains, shrunk)
	d.list("network.deniedDomains", a.Egress.DeniedDomains, b.Egress.DeniedDomains, grown)
	for _, s := range []struct {
		field    string
		from, to bool
	}{
		{"network.allowPrivate", a.Egress.AllowPrivate, b.Egress.AllowPrivate},
		{"network.allowPublic", a.Egress.AllowPublic, b.Egress.AllowPublic},
		{"network.allowLocalBinding", a.Egress.AllowLocalBinding, b.Egress.AllowLocalBinding},
	} {
		d.text(s.field, strconv.FormatBool(s.from), strconv.FormatBool(s.to), !s.to)
	}
	d.secrets(a.Egress.Secrets, b.Egress.Secrets)
	d.text("network.httpProxyPort", strconv.Itoa(a.Egress.HTTPProxyPort), strconv.Itoa(b.Egress.HTTPProxyPort), false)
}

// secrets compares the hosts of each by name. Fewer hosts keep more in.
func (d *differ) secrets(a, b []sandbox.SecretRef) {
	was, is := map[string][]string{}, map[string][]string{}
	for _, s := range a {
		was[s.Name] = s.Hosts
	}
	for _, s := range b {
		is[s.Name] = s.Hosts
	}
	for _, name := range keys(was, is) {
		from, had := was[name]
		to, has := is[name]
		if field := "network.secrets." + name; had != has && len(from)+len(to) == 0 {
			d.hidden(field, had, has, true)
		} else {
			d.list(field, from, to, shrunk)
		}
	}
}

package config

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// tags checks every value in v against the tags of its field.
func (p *problems) tags(v reflect.Value, at string) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		name := jsonName(field)
		if name == "" {
			continue
		}
		where := join(at, name)
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				continue
			}
			f = f.Elem()
		}
		switch {
		case f.Kind() == reflect.Struct:
			p.tags(f, where)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			for j := range f.Len() {
				p.tags(f.Index(j), fmt.Sprintf("%s[%d]", where, j))
			}
		case f.Kind() == reflect.Slice:
			for j := range f.Len() {
				p.word(f.Index(j).String(), field, fmt.Sprintf("%s[%d]", where, j))
			}
		case f.Kind() == reflect.String:
			p.word(f.String(), field, where)
		case f.Kind() == reflect.Int64, f.Kind() == reflect.Float64:
			p.number(f, field, where)
		}
	}
}

// word checks one string. Lines for a shell may hold newlines and tabs; no
// other string may hold anything that cannot be seen.
func (p *problems) word(s string, field reflect.StructField, at string) {
	lines := field.Name == "Setup" || field.Name == "OnStart"
	if strings.ContainsFunc(s, func(r rune) bool { return hidden(r) && !(lines && (r == '\n' || r == '\t')) }) {
		what := strconv.Quote(s)
		if strings.Contains(at, ".network.secrets") {
			what = "it" // which may be a secret, by mistake
		}
		p.badly(at, "", "%s holds a control or invisible character", what)
		return
	}
	if enum := field.Tag.Get("enum"); enum != "" {
		words, hint := strings.Split(enum, ","), ""
		if field.Tag.Get("more") == "providers" {
			if p.anyName && CheckProviderName(s) == nil {
				return
			}
			words, hint = append(words, p.providers...), ownProviders
		}
		if !slices.Contains(words, s) {
			if near := didYouMean(s, words); near != "" {
				hint = near
			}
			p.badly(at, hint, "%s is none of %s", strconv.Quote(s), strings.Join(words, ", "))
		}
	}
	if form, ok := formOf(field.Tag.Get("form")); ok && !form.matches(s) {
		p.badly(at, "it must match "+form.pattern, "%s is not valid", strconv.Quote(s))
	}
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

func didYouMean(s string, words []string) string {
	known := map[string]bool{}
	for _, w := range words {
		known[w] = true
	}
	if near := nearest(s, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// number checks the bounds of one number.
func (p *problems) number(v reflect.Value, field reflect.StructField, at string) {
	n := 0.0
	if v.CanInt() {
		n = float64(v.Int())
	} else {
		n = v.Float()
	}
	if low, err := strconv.ParseFloat(field.Tag.Get("min"), 64); err == nil && !(n >= low) {
		p.badly(at, "", "%v is too small; at least %s is needed", v.Interface(), bound(v, low))
	}
	if high, err := strconv.ParseFloat(field.Tag.Get("max"), 64); err == nil && !(n <= high) {
		p.badly(at, "", "%v is too large; at most %s is allowed", v.Interface(), bound(v, high))
	}
}

func bound(v reflect.Value, n float64) string {
	if v.Type() == sizeType {
		return Size(n).String()
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// agents checks what concerns the list as a whole and the formats of each layer.
func (p *problems) agents(s *Settings) {
	if s.Agents == nil {
		return
	}
	if n := len(s.Agents.List); n > maxAgents {
		p.badly("agents.list", "agents that need nothing of their own are served without being listed", "has %d agents; %d are allowed", n, maxAgents)
		s.Agents.List = s.Agents.List[:maxAgents]
	}
	first := map[string]int{}
	for i, a := range s.Agents.List {
		at := fmt.Sprintf("agents.list[%d]", i)
		if a.ID != nil {
			if j, ok := first[*a.ID]; ok {
				p.badly(at+".id", "give each agent an id of its own", "%q is the id of agents.list[%d] already", *a.ID, j)
			}
			first[*a.ID] = i
		}
		if a.MainSession != nil {
			if why := badSession(*a.MainSession); why != "" {
				p.badly(at+".mainSession", "", "%s", why)
			}
		}
	}
	for _, l := range fileLayers(s) {
		p.formats(l.settings, l.path)
		p.permissions(l, s.Dir)
	}
}

// formats checks the strings of one layer that have a form of their own.
func (p *problems) formats(s *SandboxSettings, at string) {
	if s == nil {
		return
	}
	if d := s.Docker; d != nil {
		p.docker(d, at+".docker")
	}
	if b := s.Browser; b != nil && b.CDPSourceRange != nil && !isPrefix(*b.CDPSourceRange) {
		p.badly(at+".browser.cdpSourceRange", "write it like 10.0.0.0/8", "%q is no range of addresses", *b.CDPSourceRange)
	}
	if f := s.Filesystem; f != nil {
		p.tempPrefixes(f.TempPrefixes, at+".filesystem.tempPrefixes")
	}
	if n := s.Network; n != nil {
		p.hosts(n.AllowedDomains, at+".network.allowedDomains", readRule)
		p.hosts(n.DeniedDomains, at+".network.deniedDomains", network.CheckDenied)
		p.secrets(n.Secrets, at+".network.secrets")
	}
	durations := map[string]*Duration{}
	if l := s.Limits; l != nil {
		durations["limits.timeout"] = l.Timeout
	}
	if n := s.Network; n != nil && n.Limits != nil {
		durations["network.limits.idle"], durations["network.limits.total"] = n.Limits.Idle, n.Limits.Total
	}
	if w := s.Pool; w != nil && w.Window != nil && (*w.Window <= 0 || *w.Window > Duration(maxPoolWindow)) {
		p.badly(at+".pool.window", "write it like 10m", "%v is not above 0 and at most %v", *w.Window, maxPoolWindow)
	}
	if c := s.Checkpoint; c != nil {
		for i, folder := range c.Folders {
			if folder == "/" || !path.IsAbs(folder) || path.Clean(folder) != folder {
				p.badly(fmt.Sprintf("%s.checkpoint.folders[%d]", at, i), "name a folder inside, like /var/tmp/cache", "%q is no absolute, clean path below /", folder)
			}
		}
	}
	if b := s.Browser; b != nil {
		durations["browser.autoStartTimeout"] = b.AutoStartTimeout
		if b.Limits != nil {
			durations["browser.limits.navigation"] = b.Limits.Navigation
		}
	}
	for name, d := range durations {
		if d != nil && *d < 0 {
			p.badly(at+"."+name, "", "%v is below 0", *d)
		}
	}
}

// maxPoolWindow is the longest pool.window: what is on record of claims is bounded.
const maxPoolWindow = time.Hour

// hosts has package network read each rule that has the form of one.
func (p *problems) hosts(rules []string, at string, check func(string) error) {
	for i, s := range rules {
		var e *sandbox.Error
		if isHostRule(s) && errors.As(check(s), &e) {
			p.badly(fmt.Sprintf("%s[%d]", at, i), e.Hint, "%s", e.Message)
		}
	}
}

// readRule reports what is wrong with a rule whatever it is for.
func readRule(text string) error {
	_, err := network.ParseRule(text)
	return err
}

func (p *problems) docker(d *DockerSettings, at string) {
	for name, value := range d.Env {
		p.env(name, value, join(at+".env", name))
	}
	for name, u := range d.Ulimits {
		p.ulimit(name, u, join(at+".ulimits", name))
	}
	for i, s := range d.Tmpfs {
		if _, err := parseTmpfs(s); err != nil {
			p.badly(fmt.Sprintf("%s.tmpfs[%d]", at, i), "write it like /tmp:size=512m,exec,mode=1777", "%q: %s", s, err)
		}
	}
	for i, s := range d.DNS {
		if !isAddress(s) {
			p.badly(fmt.Sprintf("%s.dns[%d]", at, i), "", "%q is no address", s)
		}
	}
	for i, s := range d.ExtraHosts {
		name, addr, ok := strings.Cut(s, ":")
		if !ok || !isHostName(name) || !isAddress(addr) {
			p.badly(fmt.Sprintf("%s.extraHosts[%d]", at, i), "write NAME:ADDRESS", "%q is no name with an address", s)
		}
	}
	if d.Workdir != nil && (!strings.HasPrefix(*d.Workdir, "/") || path.Clean(*d.Workdir) != *d.Workdir) {
		p.badly(at+".workdir", "write it like /workspace/src", "%q is not absolute and clean", *d.Workdir)
	}
	if d.CAFile != nil && *d.CAFile != "" && !rooted(*d.CAFile) {
		p.badly(at+".caFile", "write /… or ~/…", "%q is not absolute", *d.CAFile)
	}
	for i, s := range d.DangerouslyAllowBindSources {
		if !strings.HasPrefix(s, "/") || path.Clean(s) != s {
			p.badly(fmt.Sprintf("%s.dangerouslyAllowBindSources[%d]", at, i), "", "%q is not absolute and clean", s)
		}
	}
}

// maxEnvValue is what the kernel takes for one string of an environment.
const maxEnvValue = 128<<10 - 258

func (p *problems) env(name, value, at string) {
	switch {
	case !isVariable(name):
		p.badly(at, "use letters, digits and _", "%s is no name of a variable", strconv.Quote(name))
	case strings.IndexByte(value, 0) >= 0:
		p.badly(at, "", "the value holds a NUL byte")
	case len(value) > maxEnvValue:
		p.badly(at, "pass a file instead", "the value has %d bytes; %d are allowed", len(value), maxEnvValue)
	}
}

// ulimitNames are the limits of setrlimit(2) that may be set.
func ulimitNames() []string {
	return []string{"as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice",
		"nofile", "rss", "rtprio", "rttime", "sigpending", "stack"}
}

func (p *problems) ulimit(name string, u Ulimit, at string) {
	unlimited := func(n int64) bool { return n == -1 }
	switch {
	case name == "nproc":
		p.badly(at, "set docker.pidsLimit", "it counts the processes of a user across all containers")
	case !slices.Contains(ulimitNames(), name):
		p.badly(at, didYouMean(name, ulimitNames()), "there is no such limit")
	case u.Soft < -1 || u.Hard < -1:
		p.badly(at, "-1 is unlimited", "a limit below -1 is none")
	case unlimited(u.Soft) && !unlimited(u.Hard), !unlimited(u.Hard) && u.Soft > u.Hard:
		p.badly(at, "", "the soft limit %d is above the hard one %d", u.Soft, u.Hard)
	}
}

package path

import (
	"fmt"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// A Category is a kind of sensitive file, or of another rule that decided.
type Category string

// The categories of the table of sensitive files.
const (
	CategoryGit         Category = "git"         // what git obeys or runs
	CategoryShell       Category = "shell"       // what shells and sessions run at their start
	CategoryHistory     Category = "history"     // what was typed
	CategorySSH         Category = "ssh"         //
	CategoryCloud       Category = "cloud"       // credentials of clouds and hosting services
	CategoryContainer   Category = "container"   // engines, clusters and their credentials
	CategoryKeys        Category = "keys"        // private keys
	CategoryPackages    Category = "packages"    // credentials and settings of package managers
	CategoryEnvironment Category = "environment" // .env and its like
	CategorySecrets     Category = "secrets"     // files that by their name hold secrets
	CategoryPasswords   Category = "passwords"   // password stores, keyrings, browsers, wallets
	CategoryEditor      Category = "editor"      // what editors run or obey
	CategoryAgent       Category = "agent"       // settings, skills and hooks of agents
	CategorySystem      Category = "system"      // the machine's own files
	CategoryProcess     Category = "process"     // other processes, the kernel
	CategoryDevice      Category = "device"      // disks and memory
)

// The categories of other decisions.
const (
	CategoryRule      Category = "rule"      // a deny of the settings
	CategoryRoots     Category = "roots"     // outside of what may be read or written
	CategoryTemporary Category = "temporary" // outside of the allowed temporary folders
	CategoryName      Category = "name"      // the name does not determine the place
)

// An Entry is one kind of sensitive file.
type Entry struct {
	Category Category        `json:"category"`
	Pattern  string          `json:"pattern"`          // "~/x" in any home, "**/x" in any folder, "/x" at its place; what lies below is meant too
	Read     policy.Severity `json:"read,omitempty"`   // how bad reading is; 0 for not at all
	Write    policy.Severity `json:"write,omitempty"`  // how bad writing is
	Why      string          `json:"why"`              // part of a sentence: "it holds private keys"
	Except   []string        `json:"except,omitempty"` // patterns of last names that are not meant: "*.pub"
}

func (e *Entry) severity(op sandbox.Operation) policy.Severity {
	if op == sandbox.OpRead {
		return e.Read
	}
	return e.Write
}

// verdict is what an entry asks for: critical is denied, high and medium are
// asked about, and high is denied too where strict.
func (e *Entry) verdict(op sandbox.Operation, strict bool) policy.Verdict {
	switch s := e.severity(op); {
	case s >= policy.Critical, s == policy.High && strict:
		return policy.Deny
	case s >= policy.Medium:
		return policy.Ask
	}
	return policy.Allow
}

// Entries returns the built-in table, in its order.
func Entries() []Entry {
	var out []Entry
	for _, rows := range [][]row{gitRows, shellRows, credentialRows, packageRows, secretRows, editorRows, systemRows} {
		for _, r := range rows {
			for _, p := range r.patterns {
				out = append(out, Entry{
					Category: r.category, Pattern: p, Read: r.read, Write: r.write, Why: r.why, Except: slices.Clone(r.except),
				})
			}
		}
	}
	return out
}

// A row of the table is a number of entries that differ in their pattern.
type row struct {
	category    Category
	read, write policy.Severity
	why         string
	patterns    []string
	except      []string
}

// The severities, short for the table.
const (
	none     policy.Severity = 0
	low                      = policy.Low
	medium                   = policy.Medium
	high                     = policy.High
	critical                 = policy.Critical
)

// complete compiles the built-in entries, and what follows from them and the
// rules together. The built-in ones come before those of the settings.
func (p *Policy) complete() {
	given, closing := p.sensitive, p.closing
	p.sensitive, p.closing = index{}, [len(closing)][]*rule{}
	if err := p.entries(Entries()); err != nil {
		panic("the built-in table cannot be read: " + err.Error()) // a test reads it
	}
	given.rules(p.sensitive.add)
	for a := range closing {
		p.closing[a] = append(p.closing[a], closing[a]...)
	}
	p.lifts()
	call(p.closing[anywhere], p.floating.add)
}

// added compiles the entries that are added to the built-in ones.
func (p *Policy) added(added []Entry) error {
	for i, e := range added {
		if e.Why == "" || e.Read > policy.Critical || e.Write > policy.Critical || e.Read < 0 || e.Write < 0 {
			return invalid(fmt.Sprintf("sensitive[%d]", i), e.Pattern, "needs a reason and severities up to critical")
		}
	}
	return p.entries(added)
}

// entries compiles entries of the table.
func (p *Policy) entries(list []Entry) error {
	for _, e := range list {
		rules, err := parseRule("sensitive", e.Pattern, p.fold, nil)
		if err != nil {
			return err
		}
		if len(rules) == 0 {
			return invalid("sensitive", e.Pattern, `is relative; write "~/x", "**/x" or "/x"`)
		}
		for _, r := range rules {
			r.name, r.entry = e.Pattern, &e
			if r.anchor == atHome {
				r.anchor = atHomes
			}
			for _, name := range e.Except {
				r.but = append(r.but, newSegment(name, p.fold))
			}
			p.sensitive.add(r)
			p.closing[r.anchor] = append(p.closing[r.anchor], r)
		}
	}
	return nil
}

// lifts finds the rules that allow a sensitive file by its name, rather than
// a folder that happens to hold one.
func (p *Policy) lifts() {
	for _, l := range []struct{ from, to *index }{{&p.mayRead, &p.liftRead}, {&p.mayWrite, &p.liftWrite}} {
		l.from.rules(func(r *rule) {
			if strings.HasPrefix(r.name, "filesystem.") && p.names(r) {
				l.to.add(r)
			}
		})
	}
}

// names reports whether the rule itself names a sensitive file: a folder that
// it starts with is one, or its last name is that of one.
func (p *Policy) names(r *rule) bool {
	var plain []string
	if r.anchor == atHome {
		plain = append(plain, p.home...)
	}
	for _, s := range r.segs {
		if !s.plain {
			plain = append(plain, "")
			continue
		}
		plain = append(plain, s.text)
		var homes homes
		p.homesOf(plain, &homes)
		if p.sensitive.first(plain, &homes) != nil {
			return true
		}
	}
	return false
}

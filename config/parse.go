package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Bounds of a settings file. It is small in practice; the bounds keep a wrong
// file from costing time and memory.
const (
	maxFileBytes = 1 << 20
	maxDepth     = 32
	maxProblems  = 50
	maxAgents    = 2000
)

// Parse reads a settings file: JSON with comments and trailing commas. name is
// for messages, and when it is an absolute path it tells the folder of the
// file, which permission rules may need.
//
// Unknown and duplicate keys, wrong types, words, sizes and durations are
// errors, and so is everything that package hardening refuses. All problems
// are joined, each a *sandbox.Error whose Field is the JSON path.
func Parse(name string, data []byte) (*Settings, error) { return ParseWith(name, data, nil) }

// ParseWith is [Parse] for a program that has the providers called names beside
// the built-in ones: the settings may name these, too. The settings keep the
// names, so that [Resolve] knows them.
func ParseWith(name string, data []byte, names []string) (*Settings, error) {
	root, err := parseTree(data)
	if err != nil {
		e := sandbox.Errorf(sandbox.CodeValidation, "load settings", "%s is not valid: %w", printable(name), err)
		e.Resource = name
		return nil, e
	}
	s := Settings{Dir: folderOf(name), Providers: slices.Clone(names)}
	d := decoder{problems: problems{file: name, providers: names}}
	d.value(root, reflect.ValueOf(&s).Elem(), "")
	if err := d.judge(&s); err != nil {
		return nil, err
	}
	return &s, nil
}

// judge checks everything about s that its types do not say, and replaces the
// older names in it.
func (p *problems) judge(s *Settings) error {
	expandAliases(s)
	p.tags(reflect.ValueOf(s).Elem(), "")
	p.agents(s)
	p.daemon(s.Daemon)
	p.tenants(s.Tenants)
	p.media(s.Media)
	p.kubernetes(s.Kubernetes)
	if err := p.err(); err != nil {
		return err
	}
	for _, err := range checkRules(s) {
		p.add(err)
	}
	return p.err()
}

// parseTree checks the bounds before anything is parsed.
func parseTree(data []byte) (hujson.Value, error) {
	switch {
	case len(data) > maxFileBytes:
		return hujson.Value{}, fmt.Errorf("it has %d bytes; %d are allowed", len(data), maxFileBytes)
	case !utf8.Valid(data):
		return hujson.Value{}, errors.New("it is not UTF-8")
	case len(bytes.TrimSpace(data)) == 0:
		return hujson.Value{}, errors.New("it is empty; an empty settings file is written {}")
	case depth(data) > maxDepth:
		return hujson.Value{}, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	// The parser wants a newline after a comment that begins with //, also where
	// it is the last of the file.
	v, err := hujson.Parse(append(bytes.Clone(data), '\n'))
	if err != nil {
		return v, errors.New(printable(err.Error()))
	}
	return v, nil
}

// depth returns how deeply brackets are nested, without those in strings and
// comments. It is exact for valid input and bounds the parser's recursion for
// any input, because the parser fails at the latest where depth goes wrong.
func depth(data []byte) int {
	now, most := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '[', '{':
			now++
			most = max(most, now)
		case ']', '}':
			now--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i = skipComment(data, i)
		}
	}
	return most
}

// skipComment returns the index of the last byte of the comment at i, or i.
func skipComment(data []byte, i int) int {
	end, n := []byte(nil), 0
	switch {
	case bytes.HasPrefix(data[i:], []byte("//")):
		end = []byte("\n")
	case bytes.HasPrefix(data[i:], []byte("/*")):
		end, n = []byte("*/"), 1
	default:
		return i
	}
	j := bytes.Index(data[i+2:], end)
	if j < 0 {
		return len(data)
	}
	return i + 2 + j + n
}

// problems collects what is wrong with a file.
type problems struct {
	file string
	list []error

	providers []string // that a program has beside the built-in ones
	anyName   bool     // of a provider will do

	seen map[string]bool
	more int
}

// add keeps err unless it is known; the same default can be wrong for several agents.
func (p *problems) add(err error) {
	if err == nil || p.seen[err.Error()] {
		return
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[err.Error()] = true
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, err)
}

// badly records that the value at path is malformed.
func (p *problems) badly(path, hint, format string, args ...any) {
	p.add(&sandbox.Error{
		Code: sandbox.CodeValidation, Op: "load settings", Field: path, Resource: p.file,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (p *problems) count() int { return len(p.list) + p.more }

func (p *problems) err() error {
	list := p.list
	if p.more > 0 {
		list = append(list, sandbox.Errorf(sandbox.CodeValidation, "load settings", "%d more problems", p.more))
	}
	return errors.Join(list...)
}

// expandAliases replaces the older names of filesystem by the present ones.
func expandAliases(s *Settings) {
	for _, l := range fileLayers(s) {
		fs := l.settings.Filesystem
		if fs == nil {
			continue
		}
		fs.AllowWrite = append(fs.AllowWrite, fs.Whitelist...)
		fs.AllowRead = append(fs.AllowRead, fs.Whitelist...)
		fs.DenyRead = append(fs.DenyRead, fs.Blacklist...)
		fs.DenyWrite = append(fs.DenyWrite, fs.Blacklist...)
		fs.Whitelist, fs.Blacklist = nil, nil
	}
}

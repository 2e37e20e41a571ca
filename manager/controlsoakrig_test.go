//go:build linux

package manager_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

const (
	// someContent is in contents, arguments, headers, queries and typed texts: it
	// must not be on record.
	someContent = "hidden-c4n4ry"
	// someName is in paths, hosts and other names: it may be on record, and must
	// not be in what the caller receives.
	someName = "named-c4n4ry"
)

// A babbler makes operations that no sensible caller would ask for, and
// sometimes one that is valid.
type babbler struct {
	*rand.Rand
	c *controlled
}

func pick[T any](b *babbler, from ...T) T { return from[b.IntN(len(from))] }

// once in n times.
func (b *babbler) once(n int) bool { return b.IntN(n) == 0 }

func (b *babbler) text() string {
	return pick(b, "", "a", someContent, "-"+someContent, "a b", "$("+someContent+")", "a\x00b"+someContent, "\xff\xfe"+someContent, "\r\nX: "+someContent, strings.Repeat(someContent, 500), "ü\u202e"+someContent, "'\";|&")
}

func (b *babbler) path() string {
	return pick(b, "", "/", "/workspace", "/workspace/a", "/workspace/"+someName, "/workspace/"+someName+"/b", "/workspace/../secret/"+someName, "workspace/a", "/workspace//a/./b/",
		"/workspace/"+someName+"\x00", "/workspace/\xff"+someName, "/workspace/"+strings.Repeat(someName, 400), "/secret/"+someName, "/tmp/x", "..", "/workspace/"+strings.Repeat("a/", 300), "/proc/self/mem", "/workspace/\n"+someName, "C:\\"+someName)
}

func (b *babbler) url() string {
	ok := b.c.net.URL("http", testenv.Files, "/greeting.txt")
	return pick(b, ok, ok, ok+"?q="+someContent, ok+"#"+someContent, "", "/", "http://", "://"+someName, "http://"+someName+".test/?"+someContent, "https://"+testenv.Files, "ftp://"+testenv.Files,
		"http://u:"+someContent+"@"+testenv.Files+"/", "http://127.0.0.1/"+someContent, "http://[::1"+someName, "http://"+testenv.Files+":99999/", "http://"+strings.Repeat(someName, 300), "http://"+someName+"\x00/", "javascript:"+someContent,
		"data:text/plain,"+someContent, "http://"+testenv.Other+"/"+someContent, "file:///"+someName, "http://%zz"+someContent, ok+"/%zz"+someContent, "http://xn--a"+someName+"/", "http://0x7f.1/", ok+"\r\n"+someContent,
		b.c.net.URL("http", testenv.Redirect, "/?to=http%3A%2F%2F"+someName+".test%2F"+someContent))
}

func (b *babbler) number() int64 {
	return pick[int64](b, 0, 1, -1, 7, 4096, math.MaxInt64, math.MinInt64, 1<<31)
}

// do is what is wanted.
func (b *babbler) do() grant.Operation {
	kinds := []grant.OpKind{grant.OpFsRead, grant.OpFsRead, grant.OpFsWrite, grant.OpFsWrite, grant.OpFsList, grant.OpNetHTTP, grant.OpProcExec, grant.OpProcExec, grant.OpTmpAlloc,
		grant.OpBrowserNav, grant.OpBrowserType, grant.OpBrowserUpload, grant.OpBrowserScreenshot, "", "Nope", "FsRead\x00", grant.OpKind(someName)}
	op := grant.Operation{Kind: pick(b, kinds...)}
	if !b.once(4) { // the fields of its kind, mostly well
		switch op.Kind {
		case grant.OpFsRead, grant.OpFsList:
			op.Path = pick(b, "/workspace", "/workspace/a", b.path())
		case grant.OpFsWrite:
			op.Path, op.Data, op.Overwrite = pick(b, "/workspace/a", b.path()), []byte(b.text()), true
		case grant.OpNetHTTP:
			op.Method, op.URL = "GET", b.url()
			if b.once(3) {
				op.Header = map[string]string{"X-Test": b.text()}
			}
		case grant.OpProcExec:
			op.Tool, op.Args = "echo", []string{pick(b, "a", b.text())}
		case grant.OpTmpAlloc:
			op.Bytes = pick(b, int64(4096), b.number())
		case grant.OpBrowserNav:
			op.URL = b.url()
		case grant.OpBrowserType:
			op.Selector, op.Text = someName, someContent
		}
		return op
	}
	for range b.IntN(6) { // anything
		switch b.IntN(11) {
		case 0:
			op.Path = b.path()
		case 1:
			op.Offset, op.Length = b.number(), b.number()
		case 2:
			op.Data = []byte(b.text())
		case 3:
			op.Method = pick(b, "GET", "get", "POST", "", "BREW "+someName, "GET\r\n", "TRACE")
		case 4:
			op.URL = b.url()
		case 5:
			op.Header = map[string]string{pick(b, "Host", "X-"+someContent, "", "a b", "Content-Length", "Proxy-Authorization", "x\r\ny"): b.text(), "Authorization": someContent}
		case 6:
			op.Selector, op.Text = b.text(), b.text()
		case 7:
			op.Tool = pick(b, "echo", "sh", "/bin/echo", "../echo", "", someName, "echo\x00", "sleep")
		case 8:
			op.Args = []string{b.text(), b.text()}
		case 9:
			op.Timeout = time.Duration(b.number())
		case 10:
			op.Bytes = b.number()
		}
	}
	return op
}

// capability is any capability, malformed ones too.
func (b *babbler) capability() grant.Capability {
	return grant.Capability{Kind: pick(b, grant.FSRead, grant.FSWrite, grant.NetHTTP, grant.Process, grant.Temp, grant.GPU, "", grant.Kind(someName)), Path: pick(b, "", "", "/workspace", b.path()),
		Host: pick(b, "", "", "*", testenv.Files, "*."+someName, "[", "http://"+someName), Port: int(pick(b, 0, 0, 80, -1, 70000)), Methods: pick(b, nil, nil, []string{"GET"}, []string{"*"}, []string{""}),
		Actions: pick(b, nil, nil, []string{"open"}, []string{someName}), Tool: pick(b, "", "", "echo", someName, "/x"), Bytes: pick(b, int64(0), b.number())}
}

// deal makes a grant and a manifest, and spoils them now and then.
func (b *babbler) deal() manager.Operation {
	op := b.c.operation(grant.Operation{})
	op.Grant.Budget = grant.Budget{Calls: 100_000, BytesIn: 1 << 30, BytesOut: 1 << 30, CPUMs: 1 << 30, Files: 100_000, WallMs: 1 << 30, GPUMs: grant.Unlimited}
	op.Manifest.Limits.MaxConcurrency, op.Manifest.Limits.MaxFiles = 64, 100_000
	op.Manifest.Commands = append(op.Manifest.Commands, grant.Template{Tool: "echo", Rest: &grant.Argument{Pattern: `(?s).*`}})
	if b.once(8) {
		b.c.derive(&op)
	}
	if !b.once(3) {
		return op
	}
	for range 1 + b.IntN(2) {
		b.spoil(&op.Grant, &op.Manifest)
	}
	if len(op.Line) > 0 && b.once(2) {
		op.Line = pick(b, nil, append(op.Line, op.Line...), []grant.Grant{op.Grant}, []grant.Grant{{}})
	}
	return op
}

// spoil changes one thing.
func (b *babbler) spoil(g *grant.Grant, m *grant.Manifest) {
	now := time.Now()
	switch b.IntN(16) {
	case 0:
		g.Capabilities = append(g.Capabilities[:1:1], b.capability())
	case 1:
		m.Capabilities = append(m.Capabilities[:1:1], b.capability())
	case 2:
		g.Budget = grant.Budget{Calls: b.number(), BytesIn: b.number(), BytesOut: b.number(), CPUMs: b.number(), Files: b.number(), WallMs: b.number(), GPUMs: b.number()}
	case 3:
		g.Expires = pick(b, time.Time{}, now.Add(-time.Hour), now.Add(200*time.Millisecond), now.AddDate(9000, 0, 0), now.AddDate(200_000, 0, 0))
	case 4:
		g.Issued = pick(b, time.Time{}, now.Add(time.Hour))
	case 5:
		g.Consent = pick(b, nil, &grant.Consent{}, &grant.Consent{By: someName, Expires: now.Add(-time.Second)})
	case 6:
		g.DecisionKey = pick(b, "", "key-1", someName, strings.Repeat("k", 5000), "a/../b\x00")
	case 7:
		g.Tenant = pick(b, "", someName, "Acme", "../"+someName, strings.Repeat("t", 300), "a\x00b", "globex")
	case 8:
		g.Agent = pick(b, "", "other", "a b", "../"+someName, "\xff")
	case 9:
		g.Session = pick(b, "", "s2", "shared", "..", strings.Repeat("s", 300), "a\n"+someName)
	case 10:
		g.Tool, m.Tool = pick(b, "reporter", "other", "", "*", someName), pick(b, "reporter", "other", "", someName)
	case 11:
		g.Call, g.Subject = pick(b, "", "call-1", someName, "a\x00"), pick(b, "", someName, strings.Repeat("u", 100_000))
	case 12:
		g.ID, g.Parent = pick(b, "", g.ID, "g-1", "../"+someName, strings.Repeat("g", 5000)), pick(b, "", someName, g.ID)
	case 13:
		m.Version, m.Safety = pick(b, "1.0.0", "", "x"+someName, "1.0"), pick(b, grant.SafetyHigh, "", grant.SafetyClass(someName))
	case 14:
		m.Limits = grant.Limits{MaxBytesIn: b.number(), MaxFiles: b.number(), MaxConcurrency: int(b.number()), Timeout: time.Duration(b.number()), MaxDepth: int(b.number())}
	case 15:
		m.Commands = []grant.Template{{Tool: pick(b, "echo", "", "/x", someName), Args: []grant.Argument{{Pattern: pick(b, "(", "a*", strings.Repeat("(a", 2000))}, {OneOf: []string{someName}}}}}
	}
}

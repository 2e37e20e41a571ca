package manager_test

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// TestProfileSettings holds that limits and lists of profiles hold for what is
// carried out, whether settings, grant or manifest say them, each with its rule on
// record.
func TestProfileSettings(t *testing.T) {
	t.Parallel()
	get := func(c *controlled) grant.Operation {
		return grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: c.net.URL("http", testenv.Files, "/greeting.txt")}
	}
	write := func(path, text string) func(*controlled) grant.Operation {
		return func(*controlled) grant.Operation {
			return grant.Operation{Kind: grant.OpFsWrite, Path: path, Data: []byte(text), Overwrite: true}
		}
	}
	sleep := func(*controlled) grant.Operation {
		return grant.Operation{Kind: grant.OpProcExec, Tool: "sleep", Args: []string{"1000"}}
	}
	for name, tt := range map[string]struct {
		settings string
		change   func(*manager.Operation)
		do       func(*controlled) grant.Operation
		code     sandbox.Code
		rule     string
	}{
		"no bound":       {do: get},
		"a type listed":  {settings: `"mime":["text/*"]`, do: get},
		"types":          {settings: `"mime":["application/json"]`, do: get, code: sandbox.CodeCapabilityBlocked, rule: "policy.lists.mime"},
		"no types":       {settings: `"mime":[]`, do: get, code: sandbox.CodeCapabilityBlocked, rule: "policy.lists.mime"},
		"granted types":  {change: func(o *manager.Operation) { o.Grant.Lists.MIME = []string{"image/*"} }, do: get, code: sandbox.CodeCapabilityBlocked, rule: "grant.lists.mime"},
		"methods":        {settings: `"methods":["HEAD"]`, do: get, code: sandbox.CodeCapabilityBlocked, rule: "policy.lists.methods"},
		"bytes in":       {settings: `"maxBytesIn":3`, do: get, code: sandbox.CodeCapabilityBlocked, rule: "profile.limits.maxBytesIn"},
		"tools":          {settings: `"tools":["echo"]`, do: sleep, code: sandbox.CodeDenyTool, rule: "policy.lists.tools"},
		"paths":          {settings: `"paths":["/workspace/docs"]`, do: write("/workspace/a", "x"), code: sandbox.CodeCapabilityBlocked, rule: "policy.lists.paths"},
		"granted paths":  {change: func(o *manager.Operation) { o.Grant.Lists.Paths = []string{"/tmp"} }, do: write("/workspace/a", "x"), code: sandbox.CodeCapabilityBlocked, rule: "grant.lists.paths"},
		"a path listed":  {settings: `"paths":["/workspace/docs"]`, do: write("/workspace/docs/a", "x")},
		"bytes out":      {settings: `"maxBytesOut":3`, do: write("/workspace/a", "1234"), code: sandbox.CodeCapabilityBlocked, rule: "profile.limits.maxBytesOut"},
		"declared bytes": {change: func(o *manager.Operation) { o.Manifest.Limits.MaxBytesOut = 3 }, do: write("/workspace/a", "1234"), code: sandbox.CodeCapabilityBlocked, rule: "profile.limits.maxBytesOut"},
		"depth":          {settings: `"maxDepth":2`, do: write("/workspace/a/b/c", "x"), code: sandbox.CodeCapabilityBlocked, rule: "profile.limits.maxDepth"},
		"time":           {settings: `"timeout":"50ms"`, do: sleep, code: sandbox.CodeTimeout, rule: "profile.limits.timeout"},
		"granted time":   {change: func(o *manager.Operation) { o.Grant.Limits.Timeout = 50 * time.Millisecond }, do: sleep, code: sandbox.CodeTimeout, rule: "profile.limits.timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			c := profiled(t, tt.settings)
			op := c.operation(tt.do(c))
			if tt.change != nil {
				tt.change(&op)
			}
			done, err := c.operate(op)
			if done.Code != tt.code || done.OK != (tt.code == "") {
				t.Errorf("%+v, %v", done, err)
			}
			if _, end := c.pair(done.ID); end.Code != tt.code || end.Rule != tt.rule || end.Status == evidence.OK != done.OK {
				t.Errorf("on record is %+v", end)
			}
		})
	}
}

// profiled is a rig with settings of profiles.
func profiled(t *testing.T, members string) *controlled {
	t.Helper()
	c, _ := newControlledFake(t, nil, "", func(o *manager.Options, c *controlled) {
		o.Settings = c.parsed(`, "profile": {` + members + `}`)
	})
	return c
}

// TestProfileFilesAndConcurrency holds the two limits that count over a call: the
// files that it writes, and how much of it runs at a time.
func TestProfileFilesAndConcurrency(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	c, _ := newControlledFake(t, map[string]fake.Program{"yes": func(p *fake.Proc) int {
		close(started)
		p.Sleep(time.Hour)
		return 0
	}}, "", func(o *manager.Options, c *controlled) {
		o.Settings = c.parsed(`, "profile": {"maxFiles": 1, "maxConcurrency": 1}`)
	})
	op := c.operation(grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/a", Data: []byte("x"), Overwrite: true})
	for n, code := range []sandbox.Code{"", sandbox.CodeCapabilityBlocked} {
		if done, err := c.operate(op); done.Code != code {
			t.Errorf("file %d: %v", n+1, err)
		}
	}
	slow := op
	slow.Do = grant.Operation{Kind: grant.OpProcExec, Tool: "yes", Timeout: time.Second}
	ended := make(chan manager.Performed)
	go func() {
		done, _ := c.operate(slow) // whose code says the error
		ended <- done
	}()
	<-started
	read := op
	read.Do = grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}
	done, err := c.operate(read)
	if done.Code != sandbox.CodeBudgetExceeded || !done.Retryable {
		t.Errorf("beside another one: %+v, %v", done, err)
	}
	if _, end := c.pair(done.ID); end.Rule != "profile.limits.maxConcurrency" {
		t.Errorf("on record is %+v", end)
	}
	if done := <-ended; done.Code != sandbox.CodeTimeout {
		t.Errorf("the slow one: %+v", done)
	}
	if done, err := c.operate(read); !done.OK {
		t.Errorf("after it: %v", err)
	}
}

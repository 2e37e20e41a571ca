package sdk_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// ofTheCommandLine are the operations that type Manager has.
var ofTheCommandLine = []string{"attachSession", "explain", "lendFiles", "listing", "pool", "prune", "recreateSandboxes", "selectSandboxes", "startSessionBrowser", "stopSessionBrowser", "takePicture"}

// methods make each request of the interface once. What comes of it is not
// asked here.
func methods(c *sdk.API) map[string]func(context.Context) {
	const box = "box"
	return map[string]func(context.Context){
		"health":    func(x context.Context) { c.Health(x) },
		"metrics":   func(x context.Context) { c.Metrics(x) },
		"openapi":   func(x context.Context) { c.Document(x) },
		"readiness": func(x context.Context) { c.Readiness(x) },

		"listApprovals":    func(x context.Context) { c.Approvals(x, 0) },
		"answerApproval":   func(x context.Context) { c.AnswerApproval(x, "id", api.AnswerApproval{}) },
		"listEvidence":     func(x context.Context) { c.Evidence(x, nil) },
		"listOperations":   func(x context.Context) { c.Operations(x, nil) },
		"verifyEvidence":   func(x context.Context) { c.VerifyEvidence(x, sdk.Verification{}) },
		"listViolations":   func(x context.Context) { c.Violations(x, nil) },
		"clearViolations":  func(x context.Context) { c.ClearViolations(x, nil) },
		"checkGrant":       func(x context.Context) { c.CheckGrant(x, api.CheckGrant{}) },
		"deriveGrant":      func(x context.Context) { c.DeriveGrant(x, api.DeriveGrant{}) },
		"revokeGrant":      func(x context.Context) { c.RevokeGrant(x, "id", time.Now()) },
		"operate":          func(x context.Context) { c.Operate(x, api.Operate{}) },
		"listTokens":       func(x context.Context) { c.Tokens(x) },
		"createToken":      func(x context.Context) { c.CreateToken(x, api.CreateToken{}) },
		"getToken":         func(x context.Context) { c.Token(x, "id") },
		"revokeToken":      func(x context.Context) { c.RevokeToken(x, "id") },
		"listUsage":        func(x context.Context) { c.Usages(x) },
		"sandboxUsage":     func(x context.Context) { c.Usage(x, box) },
		"listSandboxes":    func(x context.Context) { c.ListSandboxes(x, sdk.ListOptions{}) },
		"createSandbox":    func(x context.Context) { c.CreateSandbox(x, api.CreateSandbox{}) },
		"getSandbox":       func(x context.Context) { c.Sandbox(x, box) },
		"deleteSandbox":    func(x context.Context) { c.DeleteSandbox(x, box, false, false) },
		"recreateSandbox":  func(x context.Context) { c.RecreateSandbox(x, box, api.Recreate{}) },
		"pauseSandbox":     func(x context.Context) { c.PauseSandbox(x, box) },
		"resumeSandbox":    func(x context.Context) { c.ResumeSandbox(x, box) },
		"extendSandbox":    func(x context.Context) { c.ExtendSandbox(x, box, 1) },
		"createCheckpoint": func(x context.Context) { c.CreateCheckpoint(x, box, api.CreateCheckpoint{}) },
		"listCheckpoints":  func(x context.Context) { c.ListCheckpoints(x, sdk.CheckpointOptions{}) },
		"getCheckpoint":    func(x context.Context) { c.Checkpoint(x, "id") },
		"deleteCheckpoint": func(x context.Context) { c.DeleteCheckpoint(x, "id") },
		"exportCheckpoint": func(x context.Context) { c.ExportCheckpoint(x, "id") },
		"importCheckpoint": func(x context.Context) { c.ImportCheckpoint(x, "", strings.NewReader("")) },
		"rollbackSandbox":  func(x context.Context) { c.RollbackSandbox(x, box, api.Rollback{}) },
		"forkSandbox":      func(x context.Context) { c.ForkSandbox(x, box, api.Fork{}) },
		"listChanges":      func(x context.Context) { c.ListChanges(x, box, sdk.ChangeOptions{}) },
		"applyChanges":     func(x context.Context) { c.ApplyChanges(x, box, api.ApplyChanges{}) },
		"discardChanges":   func(x context.Context) { c.DiscardChanges(x, box, api.DiscardChanges{}) },
		"undoChanges":      func(x context.Context) { c.UndoChanges(x, box, api.UndoChanges{}) },
		"listSandboxCheckpoints": func(x context.Context) {
			c.ListSandboxCheckpoints(x, box, sdk.CheckpointOptions{})
		},
		"dialPort":           func(x context.Context) { c.DialPort(x, box, 80) },
		"exec":               func(x context.Context) { c.Exec(x, box, api.Exec{}) },
		"attach":             func(x context.Context) { c.Attach(x, box, sandbox.Command{}) },
		"openTerminal":       func(x context.Context) { c.OpenTerminal(x, box, sandbox.Command{}) },
		"execStream":         func(x context.Context) { c.StreamProcess(x, box, api.ExecStream{}, sdk.ProcessSinks{}) },
		"listProcesses":      func(x context.Context) { c.Processes(x, box) },
		"startProcess":       func(x context.Context) { c.StartProcess(x, box, api.StartProcess{}) },
		"getProcess":         func(x context.Context) { c.Process(x, box, "1") },
		"killProcess":        func(x context.Context) { c.KillProcess(x, box, "1") },
		"followProcess":      func(x context.Context) { c.FollowProcess(x, box, "1", 0, sdk.ProcessSinks{}) },
		"writeProcess":       func(x context.Context) { c.WriteProcess(x, box, "1", api.ProcessInput{}) },
		"signalProcess":      func(x context.Context) { c.SignalProcess(x, box, "1", "TERM") },
		"resizeProcess":      func(x context.Context) { c.ResizeProcess(x, box, "1", sandbox.TTY{}) },
		"listPorts":          func(x context.Context) { c.Ports(x, box) },
		"sharePort":          func(x context.Context) { c.SharePort(x, box, api.SharePort{}) },
		"listShares":         func(x context.Context) { c.Shares(x, box) },
		"revokeShare":        func(x context.Context) { c.RevokeShare(x, box, "id") },
		"setSandboxTimeout":  func(x context.Context) { c.SetSandboxTimeout(x, box, 60) },
		"setSandboxNetwork":  func(x context.Context) { c.SetSandboxNetwork(x, box, config.NetworkRules{}) },
		"listTerminals":      func(x context.Context) { c.Terminals(x, box) },
		"endTerminal":        func(x context.Context) { c.EndTerminal(x, box, "id") },
		"listShells":         func(x context.Context) { c.Shells(x, box) },
		"openShell":          func(x context.Context) { c.OpenShell(x, box, api.OpenShell{}) },
		"runCode":            func(x context.Context) { c.RunCode(x, box, api.RunCode{Code: "1"}) },
		"listCodeContexts":   func(x context.Context) { c.CodeContexts(x, box) },
		"createCodeContext":  func(x context.Context) { c.CreateCodeContext(x, box, api.CreateCodeContext{}) },
		"restartCodeContext": func(x context.Context) { c.RestartCodeContext(x, box, "x") },
		"deleteCodeContext":  func(x context.Context) { c.DeleteCodeContext(x, box, "x") },
		"runLine":            func(x context.Context) { c.RunLine(x, box, "id", api.RunLine{}) },
		"closeShell":         func(x context.Context) { c.CloseShell(x, box, "id") },
		"listTools":          func(x context.Context) { c.Tools(x, box) },
		"callTool":           func(x context.Context) { c.CallTool(x, box, "exec", nil) },
		"stageMedia":         func(x context.Context) { c.StageMedia(x, box, api.StageMedia{}) },
		"listBrowsers":       func(x context.Context) { c.Browsers(x, box) },
		"startBrowser":       func(x context.Context) { c.StartBrowser(x, box, api.StartBrowser{}) },
		"viewBrowser":        func(x context.Context) { c.ViewBrowser(x, box) },
		"stopBrowser":        func(x context.Context) { c.StopBrowser(x, box, false) },
		"driveBrowser":       func(x context.Context) { c.DriveBrowser(x, box, "click", api.DriveBrowser{}) },
		"readFile":           func(x context.Context) { c.ReadFile(x, box, "a") },
		"writeFile":          func(x context.Context) { c.WriteFile(x, box, "a", strings.NewReader(""), false) },
		"removeFile":         func(x context.Context) { c.RemoveFile(x, box, "a", false) },
		"moveFile":           func(x context.Context) { c.MoveFile(x, box, api.MoveFile{}) },
		"makeFolder":         func(x context.Context) { c.MakeFolder(x, box, api.MakeFolder{}) },
		"makeLink":           func(x context.Context) { c.MakeLink(x, box, api.MakeLink{}) },
		"globFiles":          func(x context.Context) { c.Glob(x, box, api.Glob{}) },
		"packArchive":        func(x context.Context) { c.PackArchive(x, box, "a") },
		"unpackArchive":      func(x context.Context) { c.UnpackArchive(x, box, "a", strings.NewReader("")) },
		"getConsole":         func(x context.Context) { c.Console(x) },
		"endConsole":         func(x context.Context) { c.EndConsole(x) },
		"createConsoleLink":  func(x context.Context) { c.CreateConsoleLink(x, false) },
		"listTenants":        func(x context.Context) { c.Tenants(x) },
		"followEvents": func(x context.Context) {
			for range c.FollowEvents(x, false) {
			}
		},
		"watchFiles": func(x context.Context) {
			for range c.WatchFiles(x, box, sdk.Watch{Path: "a", Flat: true}) {
			}
		},
	}
}

// TestWholeInterface holds that there is a method for every operation of the
// daemon's document, and that it makes the request of that operation.
func TestWholeInterface(t *testing.T) {
	b, err := os.ReadFile("../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	var came *http.Request
	c := against(t, sdk.APIOptions{Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
		came = r
		w.WriteHeader(http.StatusTeapot)
	})
	all, known := methods(c), map[string]bool{}
	for _, id := range ofTheCommandLine {
		known[id] = true
	}
	for path, operations := range doc.Paths {
		for method, o := range operations {
			id := o.OperationID
			if known[id] {
				continue
			}
			known[id] = true
			do := all[id]
			if do == nil {
				t.Errorf("no method makes the request %s: %s %s", id, method, path)
				continue
			}
			came = nil
			do(t.Context())
			if came == nil || !strings.EqualFold(came.Method, method) || !leadsTo(path, came.URL.EscapedPath()) {
				t.Errorf("%s: came as %+v, want %s %s", id, came, method, path)
			}
		}
	}
	for id := range all {
		if !known[id] {
			t.Errorf("there is no operation %s", id)
		}
	}
}

// leadsTo reports whether an address is that of a path with its parts in braces.
func leadsTo(path, address string) bool {
	want, have := strings.Split(path, "/"), strings.Split(address, "/")
	for i, part := range want {
		if i >= len(have) || part != have[i] && !strings.HasPrefix(part, "{") {
			return false
		}
		if part == "{path}" {
			return true
		}
	}
	return len(want) == len(have)
}

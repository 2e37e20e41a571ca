package resource_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

type recordsRig struct {
	*served.Rig
	violations *violation.Store
	evidence   *evidence.Store
}

func recordsNewRig(t *testing.T) recordsRig {
	r := recordsRig{}
	var err error
	if r.violations, err = violation.Open(filepath.Join(t.TempDir(), "violations"), violation.Options{}); err != nil {
		t.Fatal(err)
	}
	if r.evidence, err = evidence.Open(filepath.Join(t.TempDir(), "evidence"), evidence.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.violations.Close(); r.evidence.Close() })
	r.Rig = served.New(t, served.Options{Resources: func(*served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewViolations(r.violations), resource.NewEvidence(r.evidence)}
	}})
	return r
}

// tried records a violation of a session.
func (r recordsRig) tried(tenant, session, host string) {
	r.T.Helper()
	v := violation.FromNetwork(sandbox.Violation{Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: host, Rule: "network.allowedDomains"},
		"it is not allowed", violation.Meta{Tenant: tenant, Agent: "main", Session: session, Sandbox: "sbx-" + session})
	if err := r.violations.Append(r.T.Context(), v); err != nil {
		r.T.Fatal(err)
	}
}

func TestViolations(t *testing.T) {
	t.Parallel()
	r := recordsNewRig(t)
	for _, s := range []string{"s1", "s2"} {
		for i := range 3 {
			r.tried("acme", s, fmt.Sprintf("host%d.%s.test:443", i, s))
		}
	}
	r.tried("evil", "s1", "evil.test:443")
	ask := func(as, query string) api.ViolationList {
		t.Helper()
		return served.JSON[api.ViolationList](t, r.Want(200, as, "GET", "/v1/violations"+query, ""))
	}
	for _, tt := range []struct {
		as, query string
		n         int
		more      bool
	}{
		{"acme", "", 6, false}, {"acme", "?limit=4", 4, true}, {"acme", "?session=s1", 3, false}, {"acme-s1", "", 3, false}, {"acme-s1", "?session=s1", 3, false},
		{"evil", "", 1, false}, {"acme", "?type=network_violation", 6, false}, {"acme", "?type=wall_path", 0, false}, {"acme", "?type=wall_path&type=network_violation", 6, false},
		{"acme", "?sandbox=sbx-s2", 3, false}, {"root", "?all", 7, false}, {"root", "", 0, false},
		{"acme", "?since=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)), 0, false}, {"acme", "?severity=critical", 0, false},
	} {
		if got := ask(tt.as, tt.query); len(got.Violations) != tt.n || got.More != tt.more {
			t.Errorf("%s %s: %d, more %v", tt.as, tt.query, len(got.Violations), got.More)
		}
	}
	for _, tt := range []struct {
		as, query string
		status    int
	}{
		{"acme", "?all", 403}, {"acme-s1", "?session=s2", 403}, {"acme", "?type=none", 422}, {"acme", "?severity=x", 422}, {"acme", "?since=now", 422},
		{"acme", "?limit=0", 422}, {"acme", "?limit=100000", 422}, {"acme", "?tenant=evil", 422}, {"nobody", "", 401},
	} {
		r.Want(tt.status, tt.as, "GET", "/v1/violations"+tt.query, "")
	}
	r.Want(403, "evil", "GET", "/v1/violations", "", "Sandbox-Tenant", "acme")
	if got := ask("acme", "?limit=1").Violations[0]; got.Resource != "host2.s2.test:443" || got.Count != 1 || got.Severity == "" || got.Rule == "" {
		t.Errorf("%+v", got)
	}
	r.Want(403, "acme-s1", "DELETE", "/v1/violations", "")
	if n := served.JSON[api.Cleared](t, r.Want(200, "acme", "DELETE", "/v1/violations?session=s1", "")); n.Removed != 3 {
		t.Errorf("%+v", n)
	}
	if got := ask("acme", ""); len(got.Violations) != 3 {
		t.Errorf("%+v", got)
	}
	if got := ask("evil", ""); len(got.Violations) != 1 {
		t.Errorf("%+v", got)
	}
}

// did records an operation, without an end where status is empty.
func (r recordsRig) did(tenant, session, id string, status evidence.Status) {
	r.T.Helper()
	add := func(kind evidence.Type, data any) {
		raw, err := json.Marshal(data)
		if err != nil {
			r.T.Fatal(err)
		}
		if err := r.evidence.Append(r.T.Context(), evidence.Record{Tenant: tenant, Agent: "main", Session: session, Sandbox: "sbx-" + session, Command: id, Type: kind, Data: raw}); err != nil {
			r.T.Fatal(err)
		}
	}
	add(evidence.TypeBegin, evidence.Begin{ID: id, Time: time.Now(), Tenant: tenant, Agent: "main", Session: session, Tool: "exec", Kind: evidence.Command})
	if status != "" {
		add(evidence.TypeEnd, evidence.End{ID: id, Time: time.Now(), Status: status})
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	r := recordsNewRig(t)
	r.did("acme", "s1", "op-1", evidence.OK)
	r.did("acme", "s1", "op-2", evidence.Denied)
	r.did("acme", "s2", "op-3", "")
	r.did("evil", "s1", "op-4", evidence.OK)
	for _, tt := range []struct {
		as, query string
		n         int
		more      bool
	}{
		{"acme", "", 5, false}, {"acme", "?limit=2", 2, true}, {"acme-s1", "", 4, false}, {"evil", "", 2, false}, {"acme", "?type=end", 2, false},
		{"acme", "?command=op-3", 1, false}, {"acme", "?command=op-4", 0, false}, {"root", "?all", 7, false},
	} {
		if got := served.JSON[api.EvidenceList](t, r.Want(200, tt.as, "GET", "/v1/evidence"+tt.query, "")); len(got.Evidence) != tt.n || got.More != tt.more {
			t.Errorf("%s %s: %d, more %v", tt.as, tt.query, len(got.Evidence), got.More)
		}
	}
	for _, tt := range []struct {
		as, query string
		ids       string
	}{
		{"acme", "", "[op-3:open op-2:denied op-1:ok]"}, {"acme-s1", "", "[op-2:denied op-1:ok]"}, {"acme", "?status=open", "[op-3:open]"},
		{"acme", "?id=op-1", "[op-1:ok]"}, {"acme", "?id=op-4", "[]"}, {"acme", "?tool=other", "[]"}, {"evil", "", "[op-4:ok]"}, {"acme", "?limit=1", "[op-3:open]"},
	} {
		ids := []string{}
		for _, o := range served.JSON[api.OperationList](t, r.Want(200, tt.as, "GET", "/v1/evidence/operations"+tt.query, "")).Operations {
			ids = append(ids, o.ID+":"+o.Status)
			if o.Begin == nil || (o.End == nil) != (o.Status == "open") {
				t.Errorf("%+v", o)
			}
		}
		if fmt.Sprint(ids) != tt.ids {
			t.Errorf("%s %s: %v", tt.as, tt.query, ids)
		}
	}
	report := served.JSON[api.EvidenceReport](t, r.Want(200, "acme", "GET", "/v1/evidence/verify", ""))
	if !report.OK || len(report.Chains) != 1 || report.Chains[0].Tenant != "acme" || report.Chains[0].Records != 5 || len(report.Keys) != 1 {
		t.Errorf("%+v", report)
	}
	if all := served.JSON[api.EvidenceReport](t, r.Want(200, "root", "GET", "/v1/evidence/verify?all", "")); len(all.Chains) != 2 || !all.OK {
		t.Errorf("%+v", all)
	}
	const other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	if foreign := served.JSON[api.EvidenceReport](t, r.Want(200, "acme", "GET", "/v1/evidence/verify?key="+url.QueryEscape(other), "")); len(foreign.Keys) != 1 || foreign.Keys[0].Public != other || foreign.Chains[0].Broken == nil {
		t.Errorf("with another key: %+v", foreign)
	}
	signed := report.Chains[0].Signed
	if signed == nil {
		t.Fatalf("%+v", report.Chains[0])
	}
	if kept := served.JSON[api.EvidenceReport](t, r.Want(200, "acme", "GET", fmt.Sprintf("/v1/evidence/verify?signed=%d:%s", signed.Seq, signed.Hash), "")); !kept.OK {
		t.Errorf("with the line that was signed: %+v", kept)
	}
	if lost := served.JSON[api.EvidenceReport](t, r.Want(200, "acme", "GET", fmt.Sprintf("/v1/evidence/verify?signed=%d:%s", signed.Seq, strings.Repeat("0", 64)), "")); lost.OK {
		t.Errorf("with another line: %+v", lost)
	}
	for _, query := range []string{"?key=short", "?signed=1", "?signed=x:" + signed.Hash} {
		r.Want(422, "acme", "GET", "/v1/evidence/verify"+query, "")
	}
	r.Want(422, "root", "GET", "/v1/evidence/verify?all&signed=1:"+signed.Hash, "")
	r.Want(403, "acme", "GET", "/v1/evidence/verify?all", "")
	r.Want(403, "acme-s1", "GET", "/v1/evidence/verify", "")
	r.Want(403, "acme-s1", "GET", "/v1/evidence?session=s2", "")
	r.Want(403, "acme-s1", "GET", "/v1/evidence/operations?session=s2", "")
	r.Want(403, "acme", "GET", "/v1/evidence?all", "")
	r.Want(http.StatusUnprocessableEntity, "acme", "GET", "/v1/evidence?type=none", "")
	r.Want(http.StatusMethodNotAllowed, "acme", "DELETE", "/v1/evidence", "")
}

// TestStreams holds that a stream without a limit has all records, and how it
// ends.
func TestStreams(t *testing.T) {
	t.Parallel()
	r := recordsNewRig(t)
	for i := range 120 {
		r.tried("acme", "s1", fmt.Sprintf("host%d.test:443", i))
		r.did("acme", "s1", fmt.Sprintf("op-%d", i), "")
	}
	r.tried("evil", "s1", "evil.test:443")
	for _, tt := range []struct {
		as, path string
		n        int
		more     bool
	}{
		{"acme", "/v1/violations", 120, false}, {"acme", "/v1/violations?limit=7", 7, true}, {"evil", "/v1/violations", 1, false}, {"acme-s2", "/v1/violations", 0, false},
		{"acme", "/v1/evidence", 120, false}, {"acme", "/v1/evidence?limit=120", 120, false}, {"acme", "/v1/evidence?command=op-3", 1, false}, {"root", "/v1/violations?all", 121, false},
	} {
		body := r.Want(200, tt.as, "GET", tt.path, "", "Accept", api.ContentEvents).Body
		end := fmt.Sprintf("event: end\ndata: {\"more\":%v}\n\n", tt.more)
		if n := strings.Count(body, "event: record\n"); n != tt.n || !strings.HasSuffix(body, end) || strings.Contains(body, "evil.test") != (tt.as != "acme" && tt.n > 0) {
			t.Errorf("%s %s: %d records, and at the end %.200q", tt.as, tt.path, n, body[max(0, len(body)-200):])
		}
	}
	r.Want(403, "acme", "GET", "/v1/violations?all", "", "Accept", api.ContentEvents)
}

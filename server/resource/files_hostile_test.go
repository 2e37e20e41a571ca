package resource_test

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// TestPathsStayInside holds that no spelling of a path reaches what is outside
// of the sandbox's mounts, and that none is an internal error.
func TestPathsStayInside(t *testing.T) {
	t.Parallel()
	filesOnProviders(t, func(t *testing.T, r *served.Rig, base string) {
		host := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(host, []byte("of the host"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.Want(201, "acme", "PUT", base+"/files/workspace/there", "x")
		for _, p := range []string{
			"/files/workspace/../../etc/passwd", "/files/workspace/%2e%2e/%2e%2e/etc/passwd", "/files/workspace/..%2f..%2fetc%2fpasswd",
			"/files/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/files//etc/passwd", "/files/%2fetc%2fpasswd", "/files/workspace%2f..%2f..%2fetc/shadow",
			"/files/workspace/there%00", "/files/workspace/%00/there", "/files/./workspace/there", "/files/workspace/.%2fthere", "/files/workspace//there",
			"/files/%5c%5chost%5cshare", "/files/C:/there", "/files/workspace/there%2f..", "/files/%c0%ae%c0%ae/etc/passwd",
			"/files/workspace/%e2%80%a5/etc", "/files/%ef%bc%8e%ef%bc%8e/etc/passwd", "/files" + host, "/files" + strings.ReplaceAll(host, "/", "%2f"),
			"/files" + r.State.Workspaces(), "/files/.sandbox/bin/sandbox-guest", "/files/proc/1/environ", "/files/proc/self/root/etc/passwd", "/files/dev/kmsg", "/files/",
			"/files/workspace/" + strings.Repeat("a/", 3000), "/files/workspace/" + strings.Repeat("a", 300),
			"/files/workspace/..;/there", "/files/workspace/%252e%252e/etc/passwd", "/../" + strings.TrimPrefix(base, "/") + "/files/workspace/there",
		} {
			for _, method := range []string{"GET", "PUT", "DELETE", "HEAD"} {
				body := ""
				if method == "PUT" {
					body = "overwritten"
				}
				a := r.Ask("acme", method, base+p, body)
				switch {
				case a.Status >= 400 && a.Status < 500:
				case method == "PUT" && (a.Status == 201 || a.Status == 200) && strings.HasPrefix(served.JSON[api.WrittenFile](t, a).Path, "/"):
					// The path is an unusual name in the workspace, or below the
					// sandbox's own folder for temporary files.
				case method == "DELETE" && a.Status == 204: // the same
				case method != "PUT" && a.Status == 200 && !strings.Contains(a.Body, "of the host") && !strings.Contains(a.Body, "root:"):
				default:
					t.Errorf("%s %s: %d %.200s", method, p, a.Status, a.Body)
				}
				if strings.Contains(a.Body, r.State.Path()) && !strings.Contains(p, r.State.Path()) {
					t.Errorf("%s %s tells of the host: %s", method, p, a.Body)
				}
			}
		}
		if data, err := os.ReadFile(host); err != nil || string(data) != "of the host" {
			t.Errorf("%q %v", data, err)
		}
		if got := r.Want(200, "acme", "GET", base+"/files/workspace/there", ""); got.Body != "x" {
			t.Errorf("%q", got.Body)
		}
		for _, body := range []string{
			`{"from":"../../etc/passwd","to":"x"}`, `{"from":"there","to":"/etc/x"}`, `{"from":"there","to":"../x"}`, `{"from":"there","to":""}`,
			`{"from":"there","to":"a\u0000b"}`, `{"from":"there","to":"` + host + `"}`, `{"from":"` + host + `","to":"x"}`, `{"from":"/workspace","to":"x"}`,
			`{"from":"there","to":"C:/x/../../.."}`, `{"from":"there","from":"other","to":"x"}`, `{"from":1,"to":"x"}`, `{`, `[]`, `{"from":"there"}`, `{"from":"there","to":"x","more":1}`,
		} {
			if a := r.Ask("acme", "POST", base+"/files:move", body); a.Status < 400 || a.Status >= 500 && a.Status != 501 {
				t.Errorf("move %s: %d %s", body, a.Status, a.Body)
			}
		}
		for _, pattern := range []string{host, "/**", "/etc/*", filepath.Dir(host) + "/*", r.State.Workspaces() + "/*"} {
			a := r.Ask("acme", "POST", base+"/files:glob", `{"pattern":"`+pattern+`"}`)
			if a.Status == 200 && strings.Contains(a.Body, "secret") || a.Status >= 500 {
				t.Errorf("glob %s: %d %s", pattern, a.Status, a.Body)
			}
		}
	})
}

// TestOthersHaveNothing holds that a sandbox of another tenant looks as if it
// did not exist.
func TestOthersHaveNothing(t *testing.T) {
	t.Parallel()
	filesInMemory(t, func(t *testing.T, r *served.Rig, base string) {
		r.Want(201, "acme", "PUT", base+"/files/workspace/mine", "x")
		none := r.Want(404, "evil", "GET", "/v1/sandboxes/sbx-s1-0000000000000000/files/workspace/mine", "").Problem(t)
		for _, as := range []string{"evil", "acme-s2"} {
			for _, q := range []struct{ method, path, body string }{
				{"GET", "/files/workspace/mine", ""}, {"HEAD", "/files/workspace/mine", ""}, {"GET", "/files/workspace?list", ""}, {"GET", "/files/workspace/mine?stat", ""},
				{"PUT", "/files/workspace/mine", "y"}, {"DELETE", "/files/workspace/mine", ""}, {"POST", "/files:move", `{"from":"mine","to":"y"}`},
				{"POST", "/files:mkdir", `{"path":"y"}`}, {"POST", "/files:glob", `{"pattern":"*"}`}, {"GET", "/archive?path=.", ""},
			} {
				a := r.Want(404, as, q.method, base+q.path, q.body)
				if q.method == "HEAD" {
					continue
				}
				if p := a.Problem(t); p.Detail != none.Detail || p.Code != none.Code || p.Hint != none.Hint {
					t.Errorf("%s %s %s: %+v", as, q.method, q.path, p)
				}
			}
		}
		r.Want(403, "evil", "GET", base+"/files/workspace/mine", "", "Sandbox-Tenant", "acme")
		r.Want(401, "nobody", "GET", base+"/files/workspace/mine", "")
		if got := r.Want(200, "root", "GET", base+"/files/workspace/mine", "", "Sandbox-Tenant", "acme"); got.Body != "x" {
			t.Errorf("%q", got.Body)
		}
	})
}

// archive returns an archive with these entries; the content of a file is its
// Linkname.
func archive(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content}
}

func filesPut(r *served.Rig, as, path string, body []byte) served.Answer {
	return r.Ask(as, http.MethodPut, path, string(body), "Content-Type", resource.ContentTar)
}

func TestArchives(t *testing.T) {
	t.Parallel()
	filesInMemory(t, func(t *testing.T, r *served.Rig, base string) {
		at := base + "/archive?path=tree"
		a := filesPut(r, "acme", at, archive(t, file("a", "one"), file("d/b", "two"), tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "d/b"},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "../../etc/passwd"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "abs", Linkname: "/etc/passwd"},
			tar.Header{Typeflag: tar.TypeChar, Name: "device", Devmajor: 1, Devminor: 3}, tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}))
		if a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if u := served.JSON[api.UnpackedArchive](t, a); u.Files != 2 || u.Links != 1 || u.Bytes != 6 || len(u.Left) != 4 {
			t.Errorf("%+v", u)
		}
		// The end of the body may come after that of the archive: the connection is not closed before.
		late, end := io.Pipe()
		padding, content := make([]byte, 1024), archive(t, file("a", "one"))
		go func() {
			_, _ = end.Write(content)
			time.AfterFunc(50*time.Millisecond, func() {
				_, _ = end.Write(padding)
				end.Close()
			})
		}()
		put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://daemon"+base+"/archive?path=late", late)
		if err != nil {
			t.Fatal(err)
		}
		put.ContentLength = int64(len(content) + len(padding))
		put.Header.Set("Content-Type", resource.ContentTar)
		put.Header.Set("Authorization", "Bearer "+r.Secret("acme"))
		keeps := &http.Transport{DialContext: r.Dial}
		defer keeps.CloseIdleConnections()
		res, err := keeps.RoundTrip(put)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body) // or the connection is not idle
		res.Body.Close()
		if res.StatusCode != 200 || res.Close {
			t.Errorf("%s, and the connection is closed: %v", res.Status, res.Close)
		}
		got := r.Want(200, "acme", "GET", at, "")
		if got.Header.Get("Content-Type") != resource.ContentTar {
			t.Error(got.Header)
		}
		var names []string
		for in := tar.NewReader(strings.NewReader(got.Body)); ; {
			h, err := in.Next()
			if err != nil {
				break
			}
			names = append(names, h.Name)
		}
		if s := strings.Join(names, " "); s != "a d/ d/b l" && s != "a d d/b l" {
			t.Error(s)
		}
		r.Want(404, "acme", "GET", base+"/archive?path=none", "")
		r.Want(422, "acme", "GET", base+"/archive", "")
		r.Want(404, "evil", "GET", at, "")
	})
}

// TestBadArchives holds that invalid archives, archives that lead out of the
// folder and decompression bombs are refused, and that files outside stay as
// they are.
func TestBadArchives(t *testing.T) {
	t.Parallel()
	filesOnProviders(t, func(t *testing.T, r *served.Rig, base string) {
		r.Want(201, "acme", "PUT", base+"/files/workspace/victim", "x")
		many := []tar.Header{}
		for range 200 {
			many = append(many, tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("n", len(many)%50+1)})
		}
		whole := archive(t, file("a", "bcd"))
		for _, tt := range []struct {
			name   string
			body   []byte
			status []int
		}{
			{"climbing", archive(t, file("../victim", "y")), []int{403}},
			{"absolute", archive(t, file("/workspace/victim", "y")), []int{403}},
			{"through a link of its own", archive(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "."}, file("l/x", "y")), []int{403}},
			{"hard link to outside", archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "../victim"}), []int{403}},
			{"too many entries", archive(t, many...), []int{429}},
			{"too large a file", archive(t, file("big", strings.Repeat("z", 1<<20+1))), []int{429}},
			{"too large together", archive(t, file("1", strings.Repeat("z", 1<<20)), file("2", strings.Repeat("z", 1<<20)), file("3", "z")), []int{413, 429}},
			{"larger than any body", bytes.Repeat([]byte{0}, 4<<20), []int{200, 413}},
			{"no archive", []byte(strings.Repeat("no archive ", 100)), []int{422}},
			{"cut", whole[:513], []int{422}},
		} {
			a := filesPut(r, "acme", base+"/archive?path=into", tt.body)
			ok := false
			for _, s := range tt.status {
				ok = ok || a.Status == s
			}
			if !ok {
				t.Errorf("%s: %d %s", tt.name, a.Status, a.Body)
			}
			if a.Status >= 400 {
				a.Problem(t)
			}
		}
		if got := r.Want(200, "acme", "GET", base+"/files/workspace/victim", ""); got.Body != "x" {
			t.Errorf("%q", got.Body)
		}
		for _, path := range []string{"../x", "/etc", "%00", "/workspace/../../etc", ""} {
			if a := filesPut(r, "acme", base+"/archive?path="+path, archive(t, file("a", "b"))); a.Status < 400 || a.Status >= 500 {
				t.Errorf("%q: %d %s", path, a.Status, a.Body)
			}
		}
	})
}

// TestLinksLeadNowhere holds that links made by code inside do not lead out of
// the sandbox.
func TestLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	filesOnProviders(t, func(t *testing.T, r *served.Rig, base string) {
		name := strings.TrimPrefix(base, "/v1/sandboxes/")
		r.Run("acme", "s1", "ln -s /etc/passwd passwd; ln -s / root; ln -s /nowhere/x dangling; mkfifo pipe")
		_ = name
		for _, p := range []string{"passwd", "root/etc/passwd", "root", "dangling", "pipe"} {
			for _, method := range []string{"GET", "PUT"} {
				a := r.Ask("acme", method, base+"/files/workspace/"+p, map[string]string{"PUT": "y"}[method])
				if a.Status < 400 || a.Status >= 500 {
					t.Errorf("%s %s: %d %s", method, p, a.Status, a.Body)
				}
			}
		}
		stat := served.JSON[api.FileList](t, r.Want(200, "acme", "GET", base+"/files/workspace/passwd?stat", ""))
		if f := stat.Items[0]; f.Type != "symlink" || f.Target != "/etc/passwd" {
			t.Errorf("%+v", f)
		}
		r.Want(204, "acme", "DELETE", base+"/files/workspace/root?recursive", "")
		list := served.JSON[api.FileList](t, r.Want(200, "acme", "GET", base+"/files/workspace?list", ""))
		if len(list.Items) != 3 {
			t.Errorf("%+v", list.Items)
		}
	})
}

package resource_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// filesOnProviders runs a test with a sandbox of the session s1 of acme, with an
// in-memory provider and with a real one.
func filesOnProviders(t *testing.T, test func(t *testing.T, r *served.Rig, base string)) {
	served.OnBoth(t, filesRig, func(r *served.Rig) { test(r.T.(*testing.T), r, "/v1/sandboxes/"+r.Ready("acme", "s1")) })
}

// filesInMemory is for what code inside and the provider have no part in.
func filesInMemory(t *testing.T, test func(t *testing.T, r *served.Rig, base string)) {
	served.OnMemory(t, filesRig, func(r *served.Rig) { test(r.T.(*testing.T), r, "/v1/sandboxes/"+r.Ready("acme", "s1")) })
}

func filesRig(t *testing.T, wall string) *served.Rig {
	return served.New(t, served.Options{Wall: wall, Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewFilesResource(r.Manager, resource.Limits{Whole: 64 << 10, File: 1 << 20, Archive: 2 << 20, Entries: 100})}
	}})
}

func tagOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return `"sha256-` + hex.EncodeToString(sum[:]) + `"`
}

func TestReadAndWrite(t *testing.T) {
	t.Parallel()
	filesOnProviders(t, func(t *testing.T, r *served.Rig, base string) {
		at := base + "/files/workspace/new/a.txt"
		made := r.Want(201, "acme", "PUT", at, "hello", "If-None-Match", "*")
		if w := served.JSON[api.WrittenFile](t, made); w.Path != "/workspace/new/a.txt" || w.Size != 5 || !w.Created || w.ETag != tagOf("hello") || made.Header.Get("ETag") != w.ETag {
			t.Errorf("%+v", w)
		}
		r.Want(412, "acme", "PUT", at, "again", "If-None-Match", "*")
		got := r.Want(200, "acme-s1", "GET", at, "")
		if got.Body != "hello" || got.Header.Get("ETag") != tagOf("hello") || got.Header.Get("Content-Type") != "application/octet-stream" || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q %v", got.Body, got.Header)
		}
		if head := r.Want(200, "acme", "HEAD", at, ""); head.Body != "" || head.Header.Get("Content-Length") != "5" || head.Header.Get("ETag") != tagOf("hello") {
			t.Errorf("%q %v", head.Body, head.Header)
		}
		r.Want(304, "acme", "GET", at, "", "If-None-Match", tagOf("hello"))
		r.Want(304, "acme", "GET", at, "", "If-Modified-Since", got.Header.Get("Last-Modified"))
		r.Want(200, "acme", "GET", at, "", "If-None-Match", tagOf("other"))
		r.Want(412, "acme", "GET", at, "", "If-Match", tagOf("other"))
		r.Want(422, "acme", "GET", at, "", "If-Match", "no tag")
		r.Want(412, "acme", "PUT", at, "x", "If-Match", tagOf("other"))
		r.Want(412, "acme", "PUT", at, "x", "If-Match", "W/"+tagOf("hello"))
		r.Want(412, "acme", "PUT", base+"/files/workspace/none", "x", "If-Match", "*")
		r.Want(412, "acme", "PUT", at, "x", "If-None-Match", tagOf("hello"))
		if w := served.JSON[api.WrittenFile](t, r.Want(200, "acme", "PUT", at, "second", "If-Match", tagOf("hello"))); w.Created {
			t.Errorf("%+v", w)
		}
		r.Want(422, "acme", "PUT", at, "x", "Content-Range", "bytes 0-0/1")
		r.Want(415, "acme", "PUT", at, "x", "Content-Encoding", "gzip")
		r.Want(422, "acme", "PUT", at+"?mode=7777", "x")
		r.Want(412, "acme", "DELETE", at, "", "If-Match", tagOf("hello"))
		r.Want(204, "acme", "DELETE", at, "", "If-Match", tagOf("second"))
		r.Want(404, "acme", "DELETE", at, "")
		r.Want(404, "acme", "GET", at, "")
		r.Want(422, "acme", "DELETE", base+"/files/workspace/new?recursive=maybe", "")
		r.Want(204, "acme", "DELETE", base+"/files/workspace/new?recursive", "")
	})
}

func TestRanges(t *testing.T) {
	t.Parallel()
	filesInMemory(t, func(t *testing.T, r *served.Rig, base string) {
		small, large := "0123456789", strings.Repeat("0123456789", 20_000)
		for name, content := range map[string]string{"small": small, "large": large} {
			at, size := base+"/files/workspace/"+name, strconv.Itoa(len(content))
			r.Want(201, "acme", "PUT", at, content)
			got := r.Want(206, "acme", "GET", at, "", "Range", "bytes=2-5")
			if got.Body != "2345" || got.Header.Get("Content-Range") != "bytes 2-5/"+size {
				t.Errorf("%s: %q %v", name, got.Body, got.Header)
			}
			if got := r.Want(206, "acme", "GET", at, "", "Range", "bytes=-3"); got.Body != "789" {
				t.Errorf("%s: %q", name, got.Body)
			}
			if got := r.Want(416, "acme", "GET", at, "", "Range", "bytes="+size+"-"); got.Header.Get("Content-Range") != "bytes */"+size {
				t.Errorf("%s: %v", name, got.Header)
			}
			r.Want(416, "acme", "GET", at, "", "Range", "bytes=99999999999999999999-")
			for _, passed := range []string{"bytes=0-1,3-4", "bytes=x", "lines=1-2", "bytes=5-2"} {
				if got := r.Want(200, "acme", "GET", at, "", "Range", passed); got.Body != content {
					t.Errorf("%s %s: %d bytes", name, passed, len(got.Body))
				}
			}
			r.Want(200, "acme", "GET", at, "", "Range", "bytes=0-0", "If-Range", `"other"`)
			if head := r.Want(200, "acme", "HEAD", at, "", "Range", "bytes=0-0"); head.Header.Get("Content-Length") != size {
				t.Errorf("%s: %v", name, head.Header)
			}
		}
		r.Want(206, "acme", "GET", base+"/files/workspace/small", "", "Range", "bytes=0-0", "If-Range", tagOf(small))
		got := r.Want(200, "acme", "GET", base+"/files/workspace/large", "")
		if tag := got.Header.Get("ETag"); !strings.HasPrefix(tag, `W/"`) || got.Body != large {
			t.Errorf("%s, %d bytes", tag, len(got.Body))
		}
		r.Want(200, "acme", "GET", base+"/files/workspace/large", "", "Range", "bytes=0-0", "If-Range", got.Header.Get("ETag"))
		// A client that has a large content knows its digest, and may use it.
		r.Want(200, "acme", "PUT", base+"/files/workspace/large", large, "If-Match", tagOf(large))
		r.Want(412, "acme", "PUT", base+"/files/workspace/large", large, "If-Match", got.Header.Get("ETag"))
		r.Want(201, "acme", "PUT", base+"/files/workspace/empty", "")
		r.Want(416, "acme", "GET", base+"/files/workspace/empty", "", "Range", "bytes=0-")
		r.Want(200, "acme", "GET", base+"/files/workspace/empty", "")
	})
}

// TestOneWins holds that of many requests with one condition one is carried out.
func TestOneWins(t *testing.T) {
	t.Parallel()
	filesInMemory(t, func(t *testing.T, r *served.Rig, base string) {
		at := base + "/files/workspace/raced"
		for _, race := range []struct{ name, header, value string }{
			{"making", "If-None-Match", "*"}, {"replacing", "If-Match", ""},
		} {
			value, won, lost := race.value, atomic.Int64{}, atomic.Int64{}
			if value == "" {
				value = r.Want(200, "acme", "GET", at, "").Header.Get("ETag")
			}
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					a := r.Ask("acme", "PUT", at, race.name+strconv.Itoa(i), race.header, value)
					switch a.Status {
					case 200, 201:
						won.Add(1)
					case 412:
						lost.Add(1)
					default:
						t.Errorf("%d %s", a.Status, a.Body)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 || lost.Load() != 15 {
				t.Errorf("%s: %d have won, %d lost", race.name, won.Load(), lost.Load())
			}
		}
	})
}

// TestCutUpload holds that a body that is incomplete or too large replaces
// nothing.
func TestCutUpload(t *testing.T) {
	t.Parallel()
	filesInMemory(t, func(t *testing.T, r *served.Rig, base string) {
		at := base + "/files/workspace/kept"
		r.Want(201, "acme", "PUT", at, "old")
		for _, size := range []int{1<<20 + 1, 4 << 20} {
			if a := r.Ask("acme", "PUT", at, strings.Repeat("x", size)); a.Status != 413 {
				t.Errorf("%d bytes: %d %s", size, a.Status, a.Body)
			}
			res, err := r.Send(t.Context(), "acme", "PUT", at, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", size))})
			if err == nil { // it may have been cut before it was sent
				if res.StatusCode != 413 {
					t.Errorf("%d bytes in pieces: %d", size, res.StatusCode)
				}
				res.Body.Close()
			}
		}
		ctx, give := context.WithCancel(t.Context())
		begun, in := io.Pipe()
		go func() {
			_, _ = in.Write(bytes.Repeat([]byte("y"), 100_000))
			give()
			in.CloseWithError(context.Canceled) // the client waits until its body is closed
		}()
		if res, err := r.Send(ctx, "acme", "PUT", at, begun); err == nil {
			res.Body.Close()
			t.Errorf("an upload that was given up: %d", res.StatusCode)
		}
		if got := r.Want(200, "acme", "GET", at, ""); got.Body != "old" {
			t.Errorf("it holds %d bytes", len(got.Body))
		}
		list := served.JSON[api.FileList](t, r.Want(200, "acme", "GET", base+"/files/workspace?list", ""))
		if len(list.Items) != 1 {
			t.Errorf("something is left: %+v", list.Items)
		}
	})
}

func TestEntries(t *testing.T) {
	t.Parallel()
	filesInMemory(t, func(t *testing.T, r *served.Rig, base string) {
		for _, n := range []string{"a", "b", "c", "d", "sub/e"} {
			r.Want(201, "acme", "PUT", base+"/files/workspace/"+n, n)
		}
		var names []string
		for cursor, pages := "", 0; pages < 10; pages++ {
			page := served.JSON[api.FileList](t, r.Want(200, "acme", "GET", base+"/files/workspace?list&limit=2&cursor="+cursor, ""))
			for _, f := range page.Items {
				names = append(names, f.Name+":"+f.Type)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if got := strings.Join(names, " "); got != "a:file b:file c:file d:file sub:dir" {
			t.Error(got)
		}
		r.Want(422, "acme", "GET", base+"/files/workspace?list&cursor=%21", "")
		r.Want(422, "acme", "GET", base+"/files/workspace?list&limit=0", "")
		r.Want(422, "acme", "GET", base+"/files/workspace?list&stat", "")
		r.Want(422, "acme", "GET", base+"/files/workspace?unknown=1", "")
		r.Want(422, "acme", "GET", base+"/files/workspace", "")
		r.Want(422, "acme", "GET", base+"/files/workspace/a?list", "")
		stat := served.JSON[api.FileList](t, r.Want(200, "acme", "GET", base+"/files/workspace/a?stat", ""))
		if len(stat.Items) != 1 || stat.Items[0].Path != "/workspace/a" || stat.Items[0].Size != 1 || stat.Items[0].ETag == "" {
			t.Errorf("%+v", stat)
		}
		r.Want(200, "acme", "POST", base+"/files:move", `{"from":"a","to":"/workspace/z"}`)
		r.Want(409, "acme", "POST", base+"/files:move", `{"from":"b","to":"z"}`)
		r.Want(200, "acme", "POST", base+"/files:move", `{"from":"b","to":"z","overwrite":true}`)
		r.Want(404, "acme", "POST", base+"/files:move", `{"from":"b","to":"y"}`)
		r.Want(201, "acme", "POST", base+"/files:mkdir", `{"path":"deep/er","parents":true}`)
		r.Want(409, "acme", "POST", base+"/files:mkdir", `{"path":"deep"}`)
		r.Want(404, "acme", "POST", base+"/files:mkdir", `{"path":"not/there"}`)
		found := served.JSON[api.GlobResult](t, r.Want(200, "acme", "POST", base+"/files:glob", `{"pattern":"**/[de]"}`))
		if got := strings.Join(found.Paths, " "); got != "/workspace/d /workspace/sub/e" || found.More {
			t.Errorf("%+v", found)
		}
		found = served.JSON[api.GlobResult](t, r.Want(200, "acme", "POST", base+"/files:glob", `{"pattern":"*","path":"sub","limit":1}`))
		if got := strings.Join(found.Paths, " "); got != "/workspace/sub/e" {
			t.Errorf("%+v", found)
		}
		r.Want(422, "acme", "POST", base+"/files:glob", `{"pattern":"../*"}`)
		r.Want(422, "acme", "POST", base+"/files:glob", `{"pattern":"[","path":"sub"}`)
		r.Want(422, "acme", "POST", base+"/files:glob", `{"pattern":"/workspace/*","path":"sub"}`)
	})
}

// TestReadOnlyAccess holds that every route that changes files is refused where
// workspaceAccess is ro, for every caller, and that the other routes are not.
func TestReadOnlyAccess(t *testing.T) {
	t.Parallel()
	for _, wall := range []string{"local", "docker"} {
		t.Run(wall, func(t *testing.T) {
			agent := t.TempDir()
			if err := errors.Join(os.Chmod(agent, 0o755), os.WriteFile(filepath.Join(agent, "a.txt"), []byte("text"), 0o644)); err != nil {
				t.Fatal(err)
			}
			settings := `{"agents": {"defaults": {"sandbox": {"provider": "` + wall + `", "workspaceAccess": "ro"}}, "list": [{"id": "main", "workspace": "` + agent + `"}]}}`
			r := served.New(t, served.Options{Wall: wall, Settings: settings, Resources: func(r *served.Rig) []resource.Resource {
				return []resource.Resource{resource.NewFilesResource(r.Manager, resource.Limits{Whole: 64 << 10, File: 1 << 20, Archive: 2 << 20, Entries: 100})}
			}})
			base := "/v1/sandboxes/" + r.Ready("acme", "s1")
			r.Run("acme", "s1", "echo own > own")
			for _, as := range []string{"acme", "acme-s1"} {
				for _, tt := range []struct{ method, path, body string }{
					{"PUT", "/files/workspace/new", "x"}, {"PUT", "/files/workspace/own", "x"}, {"PUT", "/files/tmp/new", "x"}, {"PUT", "/files/agent/a.txt", "x"},
					{"DELETE", "/files/workspace/own", ""}, {"DELETE", "/files/workspace/own?recursive=true", ""},
					{"POST", "/files:mkdir", `{"path":"new"}`}, {"POST", "/files:move", `{"from":"own","to":"new"}`},
				} {
					a := r.Want(403, as, tt.method, base+tt.path, tt.body)
					if !strings.Contains(a.Body, "POLICY.DENY_TOOL") || !strings.Contains(a.Body, "workspaceAccess is ro (agents.defaults)") {
						t.Errorf("%s %s %s: %s", as, tt.method, tt.path, a.Body)
					}
				}
				archive := r.Want(200, as, "GET", base+"/archive?path=/workspace", "").Body
				if a := r.Want(403, as, "PUT", base+"/archive?path=/workspace/sub", archive); !strings.Contains(a.Body, "POLICY.DENY_TOOL") {
					t.Errorf("%s: an archive: %s", as, a.Body)
				}
				for path, want := range map[string]string{"/files/workspace/own": "own\n", "/files/agent/a.txt": "text"} {
					if got := r.Want(200, as, "GET", base+path, "").Body; got != want {
						t.Errorf("%s %s: %q", as, path, got)
					}
				}
			}
			if got := r.Run("acme", "s1", "ls -A"); strings.TrimSpace(got) != "own" {
				t.Errorf("the workspace holds %q", got)
			}
		})
	}
}

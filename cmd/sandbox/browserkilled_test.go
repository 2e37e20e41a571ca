package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// browserSite is a site whose settings let it have browsers.
func browserSite(t *testing.T, more string) *site {
	t.Helper()
	testenv.Require(t, "browser")
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "settings.json")
	text := `{"agents": {"defaults": {"sandbox": {"browser": {"enabled": true, "autoStartTimeout": "60s"` + more + `}}}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "SANDBOX_CONFIG="+file)
	t.Cleanup(func() { s.say("recreate", "--all", "--force", "--browser") })
	return s
}

// say runs a command that has to succeed, and returns what it says.
func (s *site) say(args ...string) string {
	s.t.Helper()
	cmd := s.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%q: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// left are the containers, running or not, and networks that the engine has of
// the site.
func (s *site) left() []string {
	s.t.Helper()
	instance, err := os.ReadFile(filepath.Join(s.state, "instance"))
	if err != nil {
		s.t.Fatal(err)
	}
	label := "label=dev.bulkhead.sandbox.instance=" + strings.TrimSpace(string(instance))
	var all []string
	for _, args := range [][]string{{"ps", "--all", "--format", "{{.Names}}"}, {"network", "ls", "--format", "{{.Name}}"}} {
		out, err := exec.Command("docker", append(args, "--filter", label)...).Output()
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, strings.Fields(string(out))...)
	}
	return all
}

// tree are the paths below the state folder that are of sandboxes. What is
// recorded of what browsers did, the locks that programs take and the guest
// that all share stay.
func (s *site) tree() (paths []string) {
	s.t.Helper()
	err := filepath.WalkDir(s.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"evidence", "violations", "locks", "guest"}, d.Name()) {
			return fs.SkipDir
		}
		if strings.HasPrefix(d.Name(), ".") && filepath.Base(filepath.Dir(path)) == "browsers" {
			return nil // a half-written record of a killed program, which the registry removes after an hour
		}
		paths = append(paths, strings.TrimPrefix(path, s.state))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return paths
}

// programs are the processes of this machine that use the state folder.
func (s *site) programs() (found []string) {
	s.t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range environs {
		if env, err := os.ReadFile(file); err == nil && strings.Contains(string(env), "SANDBOX_STATE_DIR="+s.state+"\x00") {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// killedAfter kills a command without a word when it has run for d, or has
// ended by itself, and returns the first line that it said.
func (s *site) killedAfter(d time.Duration, args ...string) (said string) {
	s.t.Helper()
	cmd := s.command(args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(d, func() { cmd.Process.Kill() })
	defer timer.Stop()
	said, _ = bufio.NewReader(out).ReadString('\n')
	if said != "" && slices.Contains(args, "json") {
		cmd.Process.Kill() // it stays now, and is at its busiest
	}
	cmd.Wait()
	return said
}

// TestKilledProgramLeavesABrowserThatIsFound kills commands of browsers at many
// moments of their lives. Whatever they leave is found again: the next use
// works, and after a stop there is nothing.
func TestKilledProgramLeavesABrowserThatIsFound(t *testing.T) {
	t.Parallel()
	none := map[string][]float64{"start": {3}, "screenshot": {0.45}, "open": {0.3}}
	own := map[string][]float64{"start": {0.5}}
	if testenv.All() {
		moments := []float64{0.15, 0.45, 0.75, 3}
		none = map[string][]float64{"start": moments, "screenshot": moments, "open": moments}
		own = map[string][]float64{"start": {0.5}, "screenshot": {0.5}, "open": {0.5}}
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		killedBrowser(t, browserSite(t, ""), none)
	})
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		killedBrowser(t, browserSite(t, `, "network": "own"`), own)
	})
}

// killedBrowser kills each command at its moments, in parts of the time that a
// picture takes in all.
func killedBrowser(t *testing.T, s *site, moments map[string][]float64) {
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, []byte("<title>Here</title>"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.say("cp", page, "sandbox:/workspace/page.html")
	s.say("recreate", "--all", "--force")
	picture := filepath.Join(t.TempDir(), "page.png")
	shot := []string{"browser", "screenshot", "page.html", "-o", picture}
	begin := time.Now()
	s.say(shot...)
	whole := time.Since(begin)
	s.say("browser", "stop")
	want, id := s.tree(), 0
	if left := s.left(); len(left) > 0 {
		t.Fatalf("left after a stop: %v", left)
	}
	for _, args := range [][]string{
		{"browser", "start", "--serve", "-o", "json"}, shot, {"browser", "open", "-o", "json"},
	} {
		for _, part := range moments[args[1]] {
			id++
			moment := time.Duration(part * float64(whole))
			t.Run(fmt.Sprintf("%s at %v", args[1], part), func(t *testing.T) {
				refused(t, s.killedAfter(moment, args...))
				if id%2 == 0 {
					s.say(append([]string{"browser", "start"}, headed(args)...)...)
					if out := s.say("browser", "list", "-o", "json"); strings.Count(out, `"name": "sbx-browser-`) != 1 {
						t.Errorf("listed %s", out)
					}
				}
				s.say("browser", "stop")
				if left := s.left(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				if got := s.tree(); !slices.Equal(got, want) {
					t.Errorf("the state folder has %q", slices.DeleteFunc(got, func(path string) bool { return slices.Contains(want, path) }))
				}
				testenv.Success(t, func() error {
					if left := s.programs(); len(left) > 0 {
						return fmt.Errorf("these run on: %q", left)
					}
					return nil
				})
			})
		}
	}
}

// headed are the flags that ask for the browser which a command has made.
func headed(args []string) []string {
	if args[1] == "open" {
		return []string{"--headed"}
	}
	return nil
}

// refused checks that no server answers at the address that a killed program
// printed.
func refused(t *testing.T, said string) {
	t.Helper()
	var view struct {
		URL string `json:"url"`
	}
	if json.Unmarshal([]byte(said), &view) != nil || view.URL == "" {
		return // it printed none
	}
	u, err := url.Parse(view.URL)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", u.Host); err == nil {
		c.Close()
		t.Errorf("somebody still answers at %s", u.Host)
	}
}

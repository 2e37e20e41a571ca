package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Media are the settings of staging with the layers of one caller applied. Zero
// bounds mean the defaults of package media.
type Media struct {
	Folders  []string // host folders, as written but for the tenant
	MaxFile  int64    // bytes
	MaxTotal int64    // bytes
	MaxFiles int
	Timeout  time.Duration
	Remote   []MediaRemote
}

// A MediaRemote is a machine that media may be taken from.
type MediaRemote struct {
	Host, Address, User, KeyFile, KnownHosts string

	Port    int
	Folders []string
}

// tenantPart is the part of a path that stands for the tenant.
const tenantPart = "{tenant}"

// MediaOf returns from where and how much may be staged for a tenant. What one
// tenant sent is nothing for another: a folder counts for tenants only where its
// path names the tenant, and for calls without one only where it does not. s may
// be nil.
func MediaOf(s *Settings, tenant string) Media {
	m := Media{}
	if s == nil || s.Media == nil {
		return m
	}
	lay(&m.MaxFile, s.Media.MaxFile)
	lay(&m.MaxTotal, s.Media.MaxTotal)
	lay(&m.MaxFiles, s.Media.MaxFiles)
	lay(&m.Timeout, s.Media.Timeout)
	m.Folders = foldersOf(s.Media.Folders, tenant)
	for _, r := range s.Media.Remote {
		one := MediaRemote{
			Host: value(r.Host), Address: value(r.Address), User: value(r.User), KeyFile: value(r.KeyFile), KnownHosts: value(r.KnownHosts),
			Folders: foldersOf(r.Folders, tenant),
		}
		lay(&one.Port, r.Port)
		if len(one.Folders) > 0 {
			m.Remote = append(m.Remote, one)
		}
	}
	return m
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// foldersOf returns the folders that count for a tenant.
func foldersOf(folders []string, tenant string) []string {
	var out []string
	for _, f := range folders {
		parts := strings.Split(f, "/")
		if slices.Contains(parts, tenantPart) != (tenant != "") {
			continue
		}
		for i, part := range parts {
			if part == tenantPart {
				parts[i] = tenant // a name, which is one part of a path and not ".."
			}
		}
		out = append(out, strings.Join(parts, "/"))
	}
	return out
}

func (p *problems) media(m *MediaSettings) {
	if m == nil {
		return
	}
	p.lasting("media.timeout", m.Timeout)
	for i, f := range m.Folders {
		at := fmt.Sprintf("media.folders[%d]", i)
		p.tenantFolder(at, f)
		p.add(checkWorkspace(at, f))
	}
	first := map[string]int{}
	for i, r := range m.Remote {
		at := fmt.Sprintf("media.remote[%d]", i)
		if j, ok := first[value(r.Host)]; ok {
			p.badly(at+".host", "put the folders into one entry", "%q is the host of media.remote[%d] already", value(r.Host), j)
		}
		first[value(r.Host)] = i
		if len(r.Folders) == 0 {
			p.badly(at+".folders", "", "no folder is named, so that nothing could be taken")
		}
		for j, f := range r.Folders {
			at := fmt.Sprintf("%s.folders[%d]", at, j)
			p.tenantFolder(at, f)
			if !path.IsAbs(f) || path.Clean(f) != f || f == "/" {
				p.badly(at, "write it like /srv/media", "%q is no clean absolute path of a folder", f)
			}
		}
		for name, file := range map[string]*string{"keyFile": r.KeyFile, "knownHosts": r.KnownHosts} {
			if file != nil && !strings.HasPrefix(*file, "/") && !strings.HasPrefix(*file, "~/") && !strings.HasPrefix(*file, "$") {
				p.badly(at+"."+name, "begin it with / or ~/", "%q is no path of this machine", *file)
			}
		}
	}
}

// tenantFolder refuses a folder in which the tenant is only a piece of a path
// element: a tenant whose name is well chosen would then get the folder of
// another.
func (p *problems) tenantFolder(at, folder string) {
	for part := range strings.SplitSeq(folder, "/") {
		if part != tenantPart && strings.Contains(strings.ReplaceAll(part, "${", ""), "{") {
			p.badly(at, "write it like /srv/media/"+tenantPart, "%q has a part that is neither a name nor %s", folder, tenantPart)
		}
	}
}

package config

import (
	"fmt"
	"strings"
	"time"
)

// Daemon are the settings of sandbox serve with the defaults laid under them.
type Daemon struct {
	RequestTimeout time.Duration
	DrainTimeout   time.Duration
	MaxBody        int64    // bytes
	MaxImport      int64    // bytes of a checkpoint
	Hosts          []string // names of the daemon beyond its own, without ports
	PortDomain     string   // below which the host names of shared ports are
	Instances      []string // has no effect; see the setting

	E2B    bool // whether the protocol of E2B is served
	Agents bool // whether that of the OpenAI Agents SDK is
	SWERex bool // whether that of SWE-ReX is
	Codex  bool // whether that of Codex is

	FairSlots   int
	FairWaiting int
	FairHold    time.Duration
}

// DaemonOf returns the settings of sandbox serve. s may be nil.
func DaemonOf(s *Settings) Daemon {
	d := Daemon{
		RequestTimeout: 15 * time.Minute, DrainTimeout: 30 * time.Second, MaxBody: 1 << 20, MaxImport: 10 << 30,
		E2B: true, Agents: true, SWERex: true, Codex: true, PortDomain: "localhost", FairSlots: 16, FairWaiting: 1024, FairHold: 100 * time.Millisecond,
	}
	if s == nil || s.Daemon == nil {
		return d
	}
	lay(&d.RequestTimeout, s.Daemon.RequestTimeout)
	lay(&d.DrainTimeout, s.Daemon.DrainTimeout)
	lay(&d.MaxBody, s.Daemon.MaxBody)
	lay(&d.MaxImport, s.Daemon.MaxImport)
	d.Hosts = append(d.Hosts, s.Daemon.Hosts...)
	if s.Daemon.PortDomain != nil {
		d.PortDomain = *s.Daemon.PortDomain
	}
	d.Instances = append(d.Instances, s.Daemon.Instances...)
	if c := s.Daemon.Compat; c != nil {
		d.E2B = c.E2B == nil || *c.E2B
		d.Agents = c.Agents == nil || *c.Agents
		d.SWERex = c.SWERex == nil || *c.SWERex
		d.Codex = c.Codex == nil || *c.Codex
	}
	if f := s.Daemon.Fair; f != nil {
		lay(&d.FairSlots, f.Slots)
		lay(&d.FairWaiting, f.Waiting)
		lay(&d.FairHold, f.Hold)
	}
	return d
}

// lay puts a setting that is there over what holds without it.
func lay[T, S ~int | ~int64](to *T, setting *S) {
	if setting != nil {
		*to = T(*setting)
	}
}

func (p *problems) daemon(d *DaemonSettings) {
	if d == nil {
		return
	}
	p.lasting("daemon.requestTimeout", d.RequestTimeout)
	for i, h := range d.Hosts {
		if strings.HasSuffix(h, ".") || strings.Contains(h, "..") {
			p.badly(fmt.Sprintf("daemon.hosts[%d]", i), "write it like sandbox.example.com", "%q is no name of a host", h)
		}
	}
	if h := d.PortDomain; h != nil && (strings.HasSuffix(*h, ".") || strings.Contains(*h, "..")) {
		p.badly("daemon.portDomain", "write it like sandbox.example.com", "%q is no name of a host", *h)
	}
	if c := d.Create; c != nil {
		p.create(c)
	}
	if f := d.Fair; f != nil {
		p.lasting("daemon.fair.hold", f.Hold)
		if f.Hold != nil && *f.Hold > Duration(time.Minute) {
			p.badly("daemon.fair.hold", "", "%v is too long; at most 1m is allowed", *f.Hold)
		}
	}
}

// create refuses patterns that can match nothing.
func (p *problems) create(c *CreateSettings) {
	for i, image := range c.Images {
		if start := strings.TrimSuffix(image, "*"); !isImage(start) && (start == image || start != "" && !isImage(start+"a")) {
			p.badly(fmt.Sprintf("daemon.create.images[%d]", i), "write it like python:3.12 or registry.example.com/team/*", "%q is no image, and no beginning of one with * behind it", image)
		}
	}
	for i, name := range c.Env {
		if start := strings.TrimSuffix(name, "*"); !isVariable(start) && (start != "" || name == start) {
			p.badly(fmt.Sprintf("daemon.create.env[%d]", i), "write it like APP_MODE or APP_*", "%q is no name of a variable, and no beginning of one with * behind it", name)
		}
	}
}

// lasting refuses a time that has to be more than 0 and is not.
func (p *problems) lasting(at string, d *Duration) {
	if d != nil && *d <= 0 {
		p.badly(at, "", "%v is not more than 0", *d)
	}
}

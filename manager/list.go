package manager

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A lister compares what is recorded with what exists.
type lister struct{ m *Manager }

// A Row is one sandbox as list shows it. A nil match means that it is unknown,
// because the provider or the image did not answer.
type Row struct {
	Name        string         `json:"name"`
	ID          string         `json:"id"`
	Kind        sandbox.Kind   `json:"kind"`
	Provider    string         `json:"provider"`
	Tenant      string         `json:"tenant"`
	Agent       string         `json:"agent"`
	Session     string         `json:"session"`
	Scope       sandbox.Scope  `json:"scope"`
	ScopeKey    string         `json:"scopeKey"`
	Status      sandbox.Status `json:"status"`
	Image       string         `json:"image"`
	ImageMatch  *bool          `json:"imageMatch"`
	ConfigHash  string         `json:"configHash"`
	ConfigMatch *bool          `json:"configMatch"`
	Workspace   string         `json:"workspace"`
	CreatedAt   time.Time      `json:"createdAt"`
	LastUsedAt  time.Time      `json:"lastUsedAt"`
	ExpiresAt   time.Time      `json:"expiresAt,omitzero"`  // when it is removed, if an expiry was set
	OnTimeout   string         `json:"onTimeout,omitempty"` // what happens then: "kill" or "pause", whatever runs; empty: it goes unless something runs
	AgeSeconds  int64          `json:"ageSeconds"`
	IdleSeconds int64          `json:"idleSeconds"`

	Labels     map[string]string `json:"labels,omitempty"` // that it was created with, as what follows
	Metadata   map[string]string `json:"metadata,omitempty"`
	AutoResume *bool             `json:"autoResume,omitempty"`
	Preset     string            `json:"preset,omitempty"` // that it was created with

	Instance string `json:"instance,omitempty"` // of foreign sandboxes only
}

// Who returns on whose behalf a call comes to the sandbox of the row: for one that
// sessions share, any session of it.
func (r Row) Who() config.Who {
	return config.Who{Tenant: r.Tenant, Agent: cmp.Or(r.Agent, config.DefaultAgent), Session: cmp.Or(r.Session, config.DefaultSession)}
}

// A Listing is what exists and what is recorded, reconciled.
type Listing struct {
	Containers []Row `json:"containers"`
	Browsers   []Row `json:"browsers"`
}

// ListOptions select rows.
type ListOptions struct {
	Tenant  string            // only this tenant's, unless All
	All     bool              // every tenant's
	Labels  map[string]string // only those that have all of these
	Foreign bool              // those of other instances instead of our own

	// Unmatched leaves out whether each is as a new one would be made, which takes most
	// of the time: ImageMatch and ConfigMatch are nil.
	Unmatched bool
}

// List reconciles records with what the providers say, in one call to each
// provider. When a provider does not answer, the rows it is asked about
// are still returned, with status unknown, together with its error. The
// silence of one that no record names and no session is to use is not an
// error.
func (m *Manager) List(ctx context.Context, o ListOptions) (Listing, error) {
	out := Listing{Containers: []Row{}, Browsers: []Row{}}
	// Records are read first: a sandbox that is made in between then shows
	// up as an orphan for once, and never as missing.
	records, unread, recordErr := m.lister.readRecords(ctx)
	infos, down, listErr := m.lister.live(ctx, o.Foreign, func(provider string) bool { return m.lister.matters(provider, records, unread) })
	var rows []Row
	if o.Foreign {
		for _, info := range infos {
			if !m.ours(info.Provider, info.Owner.Instance) {
				row := m.lister.rowOf(info, nil)
				row.Instance = info.Owner.Instance
				rows = append(rows, row)
			}
		}
	} else {
		listErr = errors.Join(listErr, recordErr)
		rows = m.lister.reconcile(records, infos, down)
		listErr = errors.Join(listErr, m.creations.describe(rows))
		rows = slices.DeleteFunc(rows, func(r Row) bool { return !labelled(r, o.Labels) })
		if !o.Unmatched {
			m.lister.match(ctx, rows, records)
		}
	}
	for _, r := range rows {
		switch {
		case o.Tenant != "" && !o.All && r.Tenant != o.Tenant:
		case r.Kind == sandbox.KindBrowser:
			out.Browsers = append(out.Browsers, r)
		default:
			out.Containers = append(out.Containers, r)
		}
	}
	return out, listErr
}

// labelled reports whether the row has all the labels.
func labelled(r Row, labels map[string]string) bool {
	for name, value := range labels {
		if had, ok := r.Labels[name]; !ok || had != value {
			return false
		}
	}
	return true
}

// live asks every provider for its sandboxes. down names the providers
// that did not answer; err is of those among them that matter.
func (ls *lister) live(ctx context.Context, foreign bool, matters func(provider string) bool) (infos []sandbox.Info, down map[string]bool, err error) {
	down = map[string]bool{}
	for _, name := range ls.m.providers.Names() {
		p, getErr := ls.m.providers.Get(name)
		if getErr != nil {
			return nil, nil, getErr
		}
		f := sandbox.Filter{Instance: ls.m.instanceOf(name)}
		if foreign {
			f.Instance = ""
		}
		got, listErr := p.List(ctx, f)
		switch {
		case listErr == nil:
		case matters(name):
			down[name] = true
			err = errors.Join(err, listErr)
		case foreign:
			ls.m.log.WithError(listErr).Warnf("%s does not answer; what others have there is not shown", name)
		default:
			ls.m.log.WithError(listErr).Debugf("%s does not answer, and nothing of ours is known to be there", name)
		}
		infos = append(infos, got...)
	}
	return infos, down, err
}

// reconcile joins records and live sandboxes by name and provider: a recorded
// sandbox that is gone is missing, one without a record is an orphan, and one
// whose provider does not answer is unknown. A session that was used with two
// providers has two sandboxes.
func (ls *lister) reconcile(records []registry.Record, infos []sandbox.Info, down map[string]bool) []Row {
	type key struct{ name, provider string }
	byName := make(map[key]*registry.Record, len(records))
	for i := range records {
		byName[key{records[i].Name, records[i].Provider}] = &records[i]
	}
	rows := make([]Row, 0, len(records))
	for _, info := range infos {
		at := key{info.Name, info.Provider}
		rec := byName[at]
		delete(byName, at)
		rows = append(rows, ls.rowOf(info, rec))
	}
	for _, rec := range byName {
		row := ls.rowOf(sandbox.Info{Status: sandbox.StatusMissing}, rec)
		if _, err := ls.m.providers.Get(rec.Provider); down[rec.Provider] || err != nil {
			row.Status = sandbox.StatusUnknown // no provider has reported that it is gone
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Provider, b.Provider)) })
	return rows
}

// rowOf merges what is live and what is recorded; labels win over records.
func (ls *lister) rowOf(info sandbox.Info, rec *registry.Record) Row {
	r := Row{
		Name: info.Name, ID: info.ID, Kind: info.Kind, Provider: info.Provider,
		Tenant: info.Owner.Tenant, Agent: info.Owner.Agent, Session: info.Owner.Session, Scope: info.Owner.Scope, ScopeKey: info.Owner.ScopeKey,
		Status: info.Status, Image: info.Image, ConfigHash: info.ConfigHash, CreatedAt: info.CreatedAt,
	}
	switch {
	case rec == nil:
		if ls.m.ours(info.Provider, info.Owner.Instance) {
			r.Status = sandbox.StatusOrphan
		}
		r.LastUsedAt = r.CreatedAt
	case info.Name == "":
		r.Name, r.Kind, r.Provider, r.ConfigHash, r.CreatedAt = rec.Name, rec.Kind, rec.Provider, rec.ConfigHash, rec.CreatedAt
		r.Tenant, r.Agent, r.Session, r.Scope, r.ScopeKey = rec.Tenant, rec.Agent, rec.Session, rec.Scope, rec.ScopeKey
	}
	if rec != nil {
		r.Image, r.Workspace, r.LastUsedAt, r.ExpiresAt = rec.Image, rec.Workspace, rec.LastUsedAt, rec.ExpiresAt
		r.OnTimeout = rec.OnTimeout
	}
	now := ls.m.now()
	r.AgeSeconds = seconds(now.Sub(r.CreatedAt))
	r.IdleSeconds = seconds(now.Sub(r.LastUsedAt))
	return r
}

func seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// match fills in whether image and settings of each row are those that a
// new sandbox would get now. Each image is asked for once.
func (ls *lister) match(ctx context.Context, rows []Row, records []registry.Record) {
	type key struct{ name, provider string }
	byName := make(map[key]*registry.Record, len(records))
	for i := range records {
		byName[key{records[i].Name, records[i].Provider}] = &records[i]
	}
	now := newSnapshot(ls.m)
	for i := range rows {
		r, rec := &rows[i], byName[key{rows[i].Name, rows[i].Provider}]
		if rec == nil || r.Status == sandbox.StatusUnknown || r.Status == sandbox.StatusMissing {
			continue
		}
		w, err := now.want(ctx, *rec)
		images := err == nil && w.provider.Features().Images
		if err != nil || images && w.spec.ImageID == "" {
			continue
		}
		same := w.hash == r.ConfigHash
		if !same {
			// Listed records leave out what a sandbox was made from.
			if whole, err := ls.m.records.Of(rec.Provider).Recall(rec.Kind, rec.Name); err == nil {
				same = w.late(r.ConfigHash, &whole).hash == r.ConfigHash
			}
		}
		r.ConfigMatch = &same
		if images {
			image := w.spec.ImageID == rec.ImageID
			r.ImageMatch = &image
		}
	}
}

// readRecords lists the records, and rebuilds those that are damaged. unread is how
// many it could neither read nor rebuild; each is logged.
func (ls *lister) readRecords(ctx context.Context) (records []registry.Record, unread int, err error) {
	records, problems, err := ls.m.records.List("")
	rebuilt := ls.rebuild(ctx, problems)
	records = append(records, rebuilt...)
	type look struct {
		of  map[string]registry.SlotClaim // by slot
		err error
	}
	claims := map[string]look{}                                         // by provider
	records = slices.DeleteFunc(records, func(r registry.Record) bool { // the claim is what counts, until that of the slot is gone
		if r.Kind != sandbox.KindPool {
			return false
		}
		l, looked := claims[r.Provider]
		if !looked {
			l.of, l.err = ls.m.records.Of(r.Provider).Claims()
			claims[r.Provider] = l
			err = errors.Join(err, l.err)
		}
		_, claimed := l.of[r.Name]
		return claimed || l.err != nil // whether it is free is not known
	})
	return records, len(problems) - len(rebuilt), err
}

// rebuild writes the records of problems anew, from what the providers list.
// Reading records sets the damaged ones aside, so whoever reads them rebuilds
// them: a sandbox without a record is an orphan to the next sweep.
func (ls *lister) rebuild(ctx context.Context, problems []registry.Problem) []registry.Record {
	if len(problems) == 0 {
		return nil
	}
	var infos []sandbox.Info
	for _, name := range ls.m.providers.Names() {
		p, err := ls.m.providers.Get(name)
		if err == nil {
			var some []sandbox.Info
			some, err = p.List(ctx, sandbox.Filter{Instance: ls.m.instanceOf(name)})
			infos = append(infos, some...)
		}
		if err != nil {
			ls.m.log.WithError(err).Warnf("records that cannot be read are not rebuilt from what %s has", name)
		}
	}
	return ls.m.pruner.rebuild(problems, infos)
}

// RecordStamp tells whether anything has been recorded of sandboxes since
// another of its answers, without reading the records.
func (m *Manager) RecordStamp() (registry.Stamp, error) { return m.records.Stamp() }

package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider"
)

// All that is kept of a sandbox is one Lease, which is called like it: the document is
// in annotations, and who uses the sandbox in labels. Each change names the version
// that it was made from, so that no change of another program is lost.
const (
	labelRole = labelPrefix + "role" // roleState or roleReplica
	roleState = "state"

	annotationRecord   = labelPrefix + "record"
	annotationSpec     = labelPrefix + "spec" // compressed by gzip, in base64
	annotationCreation = labelPrefix + "creation"
	annotationClaim    = labelPrefix + "claim"
	annotationClaimed  = labelPrefix + "claimed"
	annotationDamaged  = labelPrefix + "damaged"

	maxSpecText = 4 << 20 // bytes of a Spec that is not compressed
)

// workspacesRoot is where the sources of workspaces are named. There is no such folder.
const workspacesRoot = "/pods/workspaces"

var (
	_ provider.StateKeeper = (*Provider)(nil)
	_ statedir.Glancer     = documents{}
	_ statedir.Finisher    = documents{}
)

// Instance implements [provider.StateKeeper]: all programs that use one namespace, and
// the same name of the fleet, have one instance. With namespaces for tenants it is another.
func (p *Provider) Instance() string {
	key := "fleet\x00" + p.o.Namespace + "\x00" + p.o.Fleet
	if p.o.TenantNamespaces { // a program that looks for pods elsewhere must not share their locks
		key += "\x00tenants"
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// Workspaces implements [provider.StateKeeper].
func (p *Provider) Workspaces() string { return workspacesRoot }

// Users implements [provider.StateKeeper]. A user namespace has 65,536 ids of its own,
// so that scopes that come to the same one stay apart. Without it the range is so large
// that of 1,000 sandboxes two have the same id with a probability of 0.2 %; these two
// share the kernel's budgets for a user if they are on one node, and nothing else.
func (p *Provider) Users(options map[string]any) (first, count int) {
	if sh, err := shapeOf(options); err == nil && sh.userNamespace {
		return 1000, 64000
	}
	return 0x70000000, 0x0FFFFFF0
}

// State implements [provider.StateKeeper].
func (p *Provider) State(front keylock.Locker, lost func(name string)) (statedir.Documents, keylock.Locker) {
	s := &state{p: p, front: front, lost: lost, mirror: p.leaseMirror(p.o.Namespace), gone: map[string]bool{}, absent: map[string]time.Time{}, seen: map[string]sighting{}, fenced: map[string]int{}}
	p.mu.Lock()
	p.state = s
	p.mu.Unlock()
	return documents{s}, locker{s}
}

func (p *Provider) leases() coordination.LeaseInterface {
	return p.client.CoordinationV1().Leases(p.o.Namespace)
}

// documents implements [statedir.Documents] on Leases.
type documents struct{ s *state }

// Get implements [statedir.Documents]. Of a sandbox that this program holds it asks no
// one: changes by others are watched.
func (d documents) Get(name string) (statedir.Document, error) {
	if err := statedir.CheckName(name); err != nil {
		return statedir.Document{}, err
	}
	if doc, ok := d.s.heldDocument(name); ok {
		return doc, nil
	}
	ctx, done := d.s.call()
	defer done()
	l, err := d.s.get(ctx, name)
	if err != nil {
		return statedir.Document{}, err
	}
	return documentOf(l, true), nil
}

// Change implements [statedir.Documents].
func (d documents) Change(name string, change func(*statedir.Document) error) error {
	return d.change(name, change, (*entry).rewrite)
}

// Finish implements [statedir.Finisher].
func (d documents) Finish(name string, change func(*statedir.Document) error) error {
	return d.change(name, change, (*entry).finish)
}

// change is Change, where this program holds the sandbox by held.
func (d documents) change(name string, change func(*statedir.Document) error, held func(*entry, context.Context, func(*coordinationv1.Lease) error) error) error {
	ctx, done := d.s.call()
	defer done()
	if err := d.s.unfenced(name); err != nil {
		return err
	}
	fn := func(l *coordinationv1.Lease) error {
		free := l.Annotations[annotationClaimed] == ""
		if err := onDocument(l, change); err != nil {
			return err
		}
		// A claim is made under the ensure lock of this machine alone: the Lease of
		// the slot says whether another program makes or removes it.
		by := l.Annotations[annotationEnsure]
		if me := d.s.valid(); free && l.Annotations[annotationClaimed] != "" && by != "" && (me == nil || by != me.id) {
			return keylock.Busy(name, errOther)
		}
		return nil
	}
	if e := d.s.marked(name); e != nil {
		return held(e, ctx, fn)
	}
	_, err := d.s.rewrite(ctx, name, nil, fn)
	return err
}

// Note implements [statedir.Documents].
func (d documents) Note(name string, change func(*statedir.Document) error) error {
	if err := d.s.unfenced(name); err != nil {
		return err
	}
	if noted, err := d.s.note(name, change); noted || err != nil {
		return err
	}
	return d.Change(name, change)
}

// List implements [statedir.Documents].
func (d documents) List() ([]statedir.Document, error) {
	ctx, done := d.s.call()
	defer done()
	var out []statedir.Document
	err := d.s.list(ctx, roleState, func(l *coordinationv1.Lease) {
		doc := documentOf(l, false)
		if noted, ok := d.s.noted(l.Name, l.ResourceVersion); ok {
			doc.Record = noted
		}
		if !doc.Empty() {
			out = append(out, doc)
		}
	})
	return out, err
}

// call is the context of one call of the API.
func (s *state) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.p.o.Call)
}

// mirrored returns the Leases of the mirror. Those of sandboxes are as they are now: the
// program renews its own Lease and waits until the mirror has that version, with which it
// has all that was written before. Those of replicas may be older; that one of them is
// dead is decided by a deletion of the version that was seen. ok is false where the mirror
// cannot be relied on; then the API server is asked.
func (s *state) mirrored(ctx context.Context, role string) (out []*coordinationv1.Lease, ok bool) {
	r := s.valid()
	if r == nil {
		return nil, false
	}
	version := "0"
	if role == roleState {
		if version, ok = r.beat(ctx); !ok {
			return nil, false
		}
	}
	out, ok = s.mirror.all(ctx, version, catchUp, nil)
	return slices.DeleteFunc(out, func(l *coordinationv1.Lease) bool { return l.Labels[labelRole] != role }), ok
}

// list hands over the Leases with the role, all as of one moment. They are shared.
func (s *state) list(ctx context.Context, role string, each func(*coordinationv1.Lease)) error {
	if all, ok := s.mirrored(ctx, role); ok {
		for _, l := range all {
			each(l)
		}
		return nil
	}
	o := metav1.ListOptions{LabelSelector: selector(labels.Set{labelInstance: s.p.Instance(), labelRole: role}), Limit: page}
	var all []coordinationv1.Lease
	for expired := 0; ; {
		list, err := s.p.leases().List(ctx, o)
		if apierrors.IsResourceExpired(err) && expired < 3 {
			expired, o.Continue, all = expired+1, "", nil
			continue
		}
		if err != nil {
			return s.fail(ctx, "list records", s.p.o.Namespace, err)
		}
		all = append(all, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			break
		}
	}
	for i := range all {
		each(&all[i])
	}
	return nil
}

// fail is [Provider.fail] for Leases.
func (s *state) fail(ctx context.Context, op, name string, err error) error {
	err = s.p.fail(ctx, op, name, err)
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Code == sandbox.CodeNotFound {
		e.Message = "there is no Lease of that name"
	}
	return err
}

// get returns the Lease of a name; one without a resource version where there is none.
// One that is not ours is an error.
func (s *state) get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	l, err := s.p.leases().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !isNamespace(err):
		s.mu.Lock()
		if len(s.absent) > maxAbsent {
			clear(s.absent)
		}
		s.absent[name] = time.Now()
		s.mu.Unlock()
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	case err != nil:
		return nil, s.fail(ctx, "read record", name, err)
	case l.Labels[labelInstance] != s.p.Instance() || l.Labels[labelRole] != roleState:
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "read record", Resource: name, Message: "a Lease of that name exists that is not ours",
			Hint: "remove it with: kubectl delete lease " + name + ", or use another namespace or another kubernetes.fleet"}
	}
	if err := ofLease(l, "read record"); err != nil {
		return nil, err
	}
	return l, nil
}

// wasAbsent reports whether there was no Lease of a name just now. It says so once.
func (s *state) wasAbsent(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.absent[name]
	delete(s.absent, name)
	return ok && time.Since(at) < absentFor
}

// What was not there is made without another look for so long: one that is there by
// then is refused by the API server, and looked at.
const (
	absentFor = 2 * time.Second
	maxAbsent = 1000 // names
)

// tries bounds how often a change is made anew because others change the same Lease.
const tries = 50

// assume returns the Lease of a name as it was reported last, one without a resource
// version where there was none, or nil where nothing is known. A write on the condition
// that it still is so needs no read before it.
func (s *state) assume(name string) *coordinationv1.Lease {
	none := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if s.wasAbsent(name) {
		return none
	}
	l, version, known := s.mirror.guess(name)
	switch {
	case !known:
		return nil
	case version == "":
		return none
	case l.Labels[labelRole] != roleState || ofLease(l, "read record") != nil:
		return nil
	}
	return l
}

// ofLease returns an error if a newer version has written the Lease of a sandbox: to
// write it would turn it into one of our format and lose what is not known here.
func ofLease(l *coordinationv1.Lease, op string) error {
	_, err := sandbox.Info{Name: l.Name, Format: l.Labels[labelFormat]}.CheckFormat(op)
	return err
}

// Glance implements [statedir.Glancer].
func (d documents) Glance(name string) (doc statedir.Document, ok bool) {
	if d.s.marked(name) != nil { // which is known better
		return d.s.heldDocument(name)
	}
	l, version, known := d.s.mirror.guess(name)
	switch {
	case !known:
		return doc, false
	case version == "":
		return statedir.Document{Name: name}, true
	}
	return documentOf(l, true), l.Labels[labelRole] == roleState
}

// rewrite replaces the Lease of a name by what change makes of it, and returns what
// there is then. It begins with base, or where that is nil with the Lease as it was
// reported last, or asks for it. Nothing is returned or left undone for what was
// reported: where the change is refused or changes nothing, and where another program
// has changed the Lease meanwhile, rewrite asks and calls change again. A Lease with
// nothing on it is deleted.
func (s *state) rewrite(ctx context.Context, name string, base *coordinationv1.Lease, change func(*coordinationv1.Lease) error) (_ *coordinationv1.Lease, err error) {
	if err := statedir.CheckName(name); err != nil {
		return nil, err
	}
	for try := range tries {
		assumed := false
		if base == nil && try == 0 {
			base = s.assume(name)
			assumed = base != nil
		}
		if base == nil {
			if base, err = s.get(ctx, name); err != nil {
				return nil, err
			}
		}
		next := base.DeepCopy()
		if err = change(next); assumed && (err != nil || blank(next)) {
			base = nil // nothing is decided by what is assumed
			continue
		}
		if err != nil {
			return base, err
		}
		s.describe(next)
		if assumed && equality.Semantic.DeepEqual(base, next) {
			base = nil
			continue
		}
		if next, err = s.write(ctx, base, next); err == nil {
			return next, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) || isNamespace(err) {
			return nil, s.fail(ctx, "write record", name, err)
		}
		base = nil
	}
	return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: "write record", Resource: name, Message: "other programs change the record all the time", Retryable: true, Err: err}
}

// write makes base next.
func (s *state) write(ctx context.Context, base, next *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	is := base.ResourceVersion != ""
	switch {
	case blank(next) && !is:
		return next, nil
	case blank(next):
		pre := metav1.Preconditions{UID: &base.UID, ResourceVersion: &base.ResourceVersion}
		if err := s.p.leases().Delete(ctx, base.Name, metav1.DeleteOptions{Preconditions: &pre}); err != nil {
			return nil, err
		}
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: base.Name}}, nil
	case !is:
		return s.p.leases().Create(ctx, next, metav1.CreateOptions{})
	case equality.Semantic.DeepEqual(base, next):
		return base, nil
	}
	return s.p.leases().Update(ctx, next, metav1.UpdateOptions{})
}

// describe gives l the labels by which it is found, and says in its spec what people
// look for there.
func (s *state) describe(l *coordinationv1.Lease) {
	var r struct {
		Tenant     string
		Kind       string
		LastUsedAt time.Time
	}
	_ = json.Unmarshal([]byte(l.Annotations[annotationRecord]), &r) // of a record that is none nothing is said
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	maps.Copy(l.Labels, map[string]string{labelFormat: sandbox.InfoFormat, labelInstance: s.p.Instance(), labelRole: roleState})
	delete(l.Labels, labelTenant)
	delete(l.Labels, labelKind)
	l.Spec.RenewTime = nil
	if r.Kind == string(sandbox.KindSandbox) || r.Kind == string(sandbox.KindPool) || r.Kind == string(sandbox.KindBrowser) {
		l.Labels[labelKind], l.Labels[labelTenant] = r.Kind, digest(r.Tenant)
		t := metav1.NewMicroTime(r.LastUsedAt.Truncate(time.Microsecond))
		l.Spec.RenewTime = &t
	}
}

// blank reports whether nothing is kept on l and no program holds it.
func blank(l *coordinationv1.Lease) bool {
	if l.Spec.HolderIdentity != nil || l.Annotations[annotationEnsure] != "" || !documentOf(l, false).Empty() || l.Annotations[annotationSpec] != "" {
		return false
	}
	for label := range l.Labels {
		if strings.HasPrefix(label, labelHeldBy) {
			return false
		}
	}
	return true
}

// parts are the annotations of the fields of a document, without the Spec.
func parts(d *statedir.Document) map[string]*[]byte {
	return map[string]*[]byte{
		annotationRecord: &d.Record, annotationCreation: &d.Creation, annotationClaim: &d.Claim, annotationClaimed: &d.Claimed, annotationDamaged: &d.Damaged,
	}
}

// documentOf returns the document that l holds, with the Spec if that is asked for. A
// Spec that cannot be read is left out, as one that is gone.
func documentOf(l *coordinationv1.Lease, spec bool) statedir.Document {
	d := statedir.Document{Name: l.Name}
	for name, field := range parts(&d) {
		if text := l.Annotations[name]; text != "" {
			*field = []byte(text)
		}
	}
	if text := l.Annotations[annotationSpec]; spec && text != "" {
		d.Spec, _ = unpack(text)
	}
	return d
}

// onDocument has change work on the document of l.
func onDocument(l *coordinationv1.Lease, change func(*statedir.Document) error) error {
	d := documentOf(l, true)
	before := d.Spec
	if err := change(&d); err != nil {
		return err
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	for name, field := range parts(&d) {
		if len(*field) > 0 {
			l.Annotations[name] = string(*field)
		} else {
			delete(l.Annotations, name)
		}
	}
	switch {
	case len(d.Spec) == 0:
		delete(l.Annotations, annotationSpec)
	case !bytes.Equal(d.Spec, before):
		l.Annotations[annotationSpec] = pack(d.Spec)
	}
	return nil
}

// pack compresses without state: each claim packs a Spec, and a compressor with tables
// of its own clears 800 KB of them for a few KB of text.
func pack(data []byte) string {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.StatelessCompression) // it is a level
	_, _ = w.Write(data)                                       // to memory
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func unpack(text string) ([]byte, error) {
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSpecText+1))
	if err == nil && len(data) > maxSpecText {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// newer reports whether version a of an object is later than b. Versions of one API
// server are numbers that grow; one that is none counts as later.
func newer(a, b string) bool {
	n, errA := strconv.ParseUint(a, 10, 64)
	m, errB := strconv.ParseUint(cmp.Or(b, "0"), 10, 64)
	return errA != nil || errB != nil || n > m
}

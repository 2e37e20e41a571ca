package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
)

// fitter is a handle that knows whether its sandbox still closes what has to be
// closed in folders of people, where repositories and settings of editors and
// agents come and go while it stands. With grave nothing may run in it as it is.
type fitter interface {
	Fits(ctx context.Context) (why string, grave bool, err error)
}

// fits asks the handle sb, where it knows.
func fits(ctx context.Context, sb sandbox.Sandbox) (why string, grave bool, err error) {
	if f, ok := sb.(fitter); ok {
		return f.Fits(ctx)
	}
	return "", false, nil
}

// fitting returns l, or a new sandbox in its place where it does not fit any
// more. One that others use is kept, unless that would leave open what was
// closed. The lease of l is held.
func (b *builder) fitting(ctx context.Context, w *want, l *acquired, leased bool) (*acquired, error) {
	why, grave, err := fits(ctx, l.Sandbox)
	switch {
	case err != nil:
		l.letGo()
		return nil, err
	case why == "":
		return l, nil
	case leased && !grave:
		b.m.log.WithField("sandbox", l.name()).Warnf("%s; until it is made anew, what code inside makes there for git is taken away after each command; apply it with: sandbox recreate %s", why, l.name())
		return l, nil
	}
	l.letGo()
	if leased {
		return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: "run", Resource: l.name(),
			Message: why + ", and something runs in it", Hint: "wait until that has ended, or end it with: sandbox recreate " + l.name()}
	}
	b.m.log.WithField("sandbox", l.name()).Infof("recreate it: %s", why)
	b.m.handles.drop(l.name())
	held, err := b.replace(ctx, w, l.held)
	if err != nil {
		return nil, err
	}
	made, err := b.createHeld(ctx, w, held)
	if err != nil {
		held.Release()
	}
	return made, err
}

package sdk

import (
	"context"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	askWithin = 45 // seconds that a daemon may wait for a question
	askRest   = 200 * time.Millisecond
	maxAsked  = 100 // questions that a daemon may have waiting, of which we know
)

// Asking has a asked what waits for an answer of a session, while a command of it
// runs through the conductor that it returns. What a does not answer waits for
// others, as [API.Approvals] tells it.
func (d *Manager) Asking(a sandbox.Approver, log logrus.FieldLogger) *Manager {
	asks := *d
	asks.approver, asks.log = a, log
	return &asks
}

// answering has questions of who answered until stop is called, which waits for
// it to end.
func (d *Manager) answering(ctx context.Context, who config.Who) (stop func()) {
	if d.approver == nil {
		return func() {}
	}
	return answering(ctx, d.as(who), who, d.approver, d.log)
}

// answering has by asked what calls of who ask of the daemon of c, until stop is
// called, which waits for that to end. What by does not answer waits for others.
func answering(ctx context.Context, c *API, who config.Who, by sandbox.Approver, log logrus.FieldLogger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answerAll(ctx, c, who, by, log)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func answerAll(ctx context.Context, c *API, who config.Who, by sandbox.Approver, log logrus.FieldLogger) {
	bare := *c
	bare.o.settings = "" // which have no effect on questions
	var known []string
	for ctx.Err() == nil {
		l, err := bare.Approvals(ctx, askWithin, known...)
		if err != nil && ctx.Err() == nil {
			log.WithError(err).Warn("what the command asks is not known; another client may answer")
			return
		}
		var now []string
		for _, q := range l.Items[:min(len(l.Items), maxAsked)] {
			now = append(now, q.ID)
			if !slices.Contains(known, q.ID) && q.Agent == who.Agent && q.Session == who.Session {
				answer(ctx, &bare, q, by, log)
			}
		}
		known = now
		select {
		case <-ctx.Done():
		case <-time.After(askRest):
		}
	}
}

// answer asks one question. One that by does not answer is left to others.
func answer(ctx context.Context, c *API, q api.Approval, by sandbox.Approver, log logrus.FieldLogger) {
	within, cancel := context.WithDeadline(ctx, q.Expires)
	defer cancel()
	p, err := by.Approve(within, sandbox.PermissionRequest{
		ID: q.ID, Tenant: q.Tenant, Agent: q.Agent, Session: q.Session, Sandbox: q.Sandbox, Kind: q.Kind, Operation: sandbox.Operation(q.Operation),
		Resource: q.Resource, Command: q.Command, Reason: q.Reason, Expires: q.Expires,
	})
	if err != nil {
		return
	}
	err = c.AnswerApproval(ctx, q.ID, api.AnswerApproval{Permission: string(p)})
	if err != nil && ctx.Err() == nil {
		log.WithError(err).Warn("the answer does not count; another approver may answer")
	}
}

package egress

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A Question is an approval request about a host. Its texts are canonical or
// from the policy, so they can be shown.
type Question struct {
	Caller string // id of the command; empty when it is not known
	Host   string
	Port   uint16
	Method string // CONNECT, SOCKS5, or that of the plain request
	Reason string
}

// An Answer is the answer to a Question. Rule names what decided ("allowed for
// the session"); Note is shown to the refused program.
type Answer struct {
	Allowed    bool
	Rule, Note string
}

// The bounds of questions.
const (
	denialTime   = time.Minute // how long a denial is kept for the same host and port
	maxQuestions = 10          // in a minute; those that were answered with yes do not count
	maxDenials   = 1024        // denials that are kept
)

// An asker asks about each host and port once at a time; all waiting requests
// get the answer. A denial is kept for a minute, because programs retry
// refused requests. An approval is not kept here: its source decides how long
// it holds, and is asked again.
type asker struct {
	ctx       context.Context // of the Session
	ask       func(context.Context, Question) Answer
	permitted func(Question) (Answer, bool)
	now       func() time.Time
	asked     func()

	mu      sync.Mutex
	answers map[string]*inquiry // by host and port: open questions and denials
	spent   []time.Time         // times of the questions that count
	running sync.WaitGroup
}

// An inquiry is a question and, once done is closed, its answer.
type inquiry struct {
	done    chan struct{}
	answer  Answer
	at      time.Time // when it was answered
	waiting int
	cancel  context.CancelFunc
}

// decide turns a decision to ask into an allow or deny.
func (a *asker) decide(ctx context.Context, d network.Decision, q Question) network.Decision {
	if a.ask == nil {
		return network.Decision{Verdict: policy.Deny, Rule: d.Rule, Message: d.Message + ", and approvals cannot be asked for", Hint: d.Hint}
	}
	if a.permitted != nil {
		if answer, ok := a.permitted(q); ok && answer.Allowed {
			return answer.decision(q)
		}
	}
	in, why := a.join(q)
	if in == nil {
		return network.Decision{Verdict: policy.Deny, Rule: "network.ask", Message: why, Hint: "wait a minute, or have network.allowedDomains name the host"}
	}
	defer a.leave(in)
	select {
	case <-in.done:
	case <-ctx.Done():
		return network.Decision{Verdict: policy.Deny, Rule: "network.ask", Message: "the program ended the connection before there was an answer"}
	}
	return in.answer.decision(q)
}

// decision returns the decision that the answer to q means.
func (a Answer) decision(q Question) network.Decision {
	rule := a.Rule
	if rule == "" {
		rule = "network.ask"
	}
	target := targetText(q.Host, q.Port)
	if a.Allowed {
		return network.Decision{Verdict: policy.Allow, Rule: rule, Message: target + " was allowed by who was asked"}
	}
	message := target + " was refused by who was asked"
	if a.Note != "" {
		message += ": " + printable(a.Note, 200)
	}
	return network.Decision{Verdict: policy.Deny, Rule: rule, Message: message, Hint: "do without it"}
}

// join returns the inquiry about the host, and starts a new one if there is
// none. It returns nil and the reason if no more questions may be asked.
func (a *asker) join(q Question) (*inquiry, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, now := targetText(q.Host, q.Port), a.now()
	if in := a.answers[key]; in != nil {
		if !in.answered() && in.waiting > 0 || in.answered() && now.Sub(in.at) < denialTime {
			in.waiting++
			return in, ""
		}
		delete(a.answers, key)
	}
	a.tidy(now)
	if len(a.spent) >= maxQuestions || len(a.answers) >= maxDenials {
		return nil, "too many questions were asked within a minute"
	}
	if a.ctx.Err() != nil {
		return nil, errClosed.Error()
	}
	a.spent = append(a.spent, now)
	ctx, cancel := context.WithCancel(a.ctx)
	in := &inquiry{done: make(chan struct{}), waiting: 1, cancel: cancel}
	if a.answers == nil {
		a.answers = map[string]*inquiry{}
	}
	a.answers[key] = in
	a.asked()
	a.running.Go(func() { a.put(ctx, key, in, q, now) })
	return in, ""
}

// put asks, and gives the answer to all waiting requests.
func (a *asker) put(ctx context.Context, key string, in *inquiry, q Question, asked time.Time) {
	answer := Answer{}
	defer func() {
		broken := recover() != nil
		a.mu.Lock()
		defer a.mu.Unlock()
		in.answer, in.at = answer, a.now()
		if broken || ctx.Err() != nil { // there is no answer
			in.answer = Answer{Note: "the question was not answered"}
		}
		if a.answers[key] == in && (broken || ctx.Err() != nil || in.answer.Allowed) {
			delete(a.answers, key)
		}
		if in.answer.Allowed { // approved questions do not count
			if i := slices.IndexFunc(a.spent, asked.Equal); i >= 0 {
				a.spent = slices.Delete(a.spent, i, i+1)
			}
		}
		close(in.done)
		in.cancel()
	}()
	answer = a.ask(ctx, q)
}

// leave removes one waiting request; without any the question is withdrawn.
func (a *asker) leave(in *inquiry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if in.waiting--; in.waiting == 0 && !in.answered() { // a new inquiry may take its place
		in.cancel()
	}
}

// tidy removes expired entries.
func (a *asker) tidy(now time.Time) {
	for len(a.spent) > 0 && now.Sub(a.spent[0]) >= time.Minute {
		a.spent = a.spent[1:]
	}
	if len(a.answers) < maxDenials {
		return
	}
	for key, in := range a.answers {
		if in.answered() && now.Sub(in.at) >= denialTime {
			delete(a.answers, key)
		}
	}
}

// wait returns when no question is open. The context of the Session has ended.
func (a *asker) wait() { a.running.Wait() }

func (in *inquiry) answered() bool {
	select {
	case <-in.done:
		return true
	default:
		return false
	}
}

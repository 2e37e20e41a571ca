package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Bounds of setup commands. A recipe line may not pass 64 KiB in the engine,
// and an image not 127 layers.
const (
	maxSetupCommands = 64
	maxSetupLine     = 60 << 10
)

// EnsureSetup returns the image that base becomes when commands have run in
// it, each by "/bin/sh -ec", in order, as root and with network. The result is
// cached by (base.ID, commands) under a tag of its own; without commands it is
// base itself. It runs as the user that base runs as.
//
// A command that fails is CodeExecution with Field "docker.setup[i]", the command and
// the end of its output in the message.
func (s *Store) EnsureSetup(ctx context.Context, base Image, commands []string, o Options) (Image, error) {
	const op = "apply setup"
	if len(commands) == 0 {
		return base, nil
	}
	if base.ID == "" {
		return Image{}, sandbox.Errorf(sandbox.CodeValidation, op, "the base image has no ID")
	}
	job, key, err := setupJob(base, commands)
	if err != nil {
		return Image{}, err
	}
	// The tag holds a part of the key only; the label decides.
	valid := func(img Image) bool { return img.Labels[labelSetup] == key }
	img, err := s.Inspect(ctx, job.ref)
	if err == nil && valid(img) {
		return img, nil
	}
	if err != nil && !sandbox.IsNotFound(err) {
		return Image{}, err
	}
	o.Base = ""
	return s.make(ctx, "setup ", job.ref, PhaseSetup, o, false, func(ctx context.Context, say reporter) error {
		img, err := s.Inspect(ctx, job.ref)
		if err == nil && valid(img) {
			return nil // made while we waited
		}
		if err != nil && !sandbox.IsNotFound(err) {
			return err
		}
		job := job
		job.args = s.proxyArgs()
		before, err := s.withCA(&job)
		if err != nil {
			return err
		}
		s.annotate(job.labels, job.ref, key, base.Ref)
		return setupError(s.runBuild(ctx, job, say), commands, before)
	})
}

// SetupKey is the digest that a setup layer is cached by: hex SHA-256 over
// the base's identity and the commands.
func SetupKey(baseID string, commands []string) string {
	text, _ := json.Marshal(append([]string{"setup-1", baseID}, commands...)) // strings always encode
	return digest(string(text))
}

// setupHead is the number of instructions before the first command.
const setupHead = 4

func setupJob(base Image, commands []string) (buildJob, string, error) {
	const op = "apply setup"
	fail := func(field, message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: field, Message: message,
			Hint: "bake an image of your own for longer recipes"}
	}
	if len(commands) > maxSetupCommands {
		return buildJob{}, "", fail("docker.setup", fmt.Sprintf("%d commands, at most %d are possible", len(commands), maxSetupCommands))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\nARG BUILD\nLABEL %s=\"${BUILD}\"\nUSER 0\n", base.ID, labelBuild)
	for i, c := range commands {
		field := fmt.Sprintf("docker.setup[%d]", i)
		if strings.TrimSpace(c) == "" {
			return buildJob{}, "", fail(field, "the command is empty")
		}
		if strings.ContainsRune(c, 0) || !utf8.ValidString(c) {
			return buildJob{}, "", fail(field, "the command is not valid UTF-8 text")
		}
		// The JSON form passes the bytes through: no expansion, no line
		// continuation, no here-document of the recipe's own.
		line, _ := json.Marshal([]string{"/bin/sh", "-ec", c})
		if len(line) > maxSetupLine {
			return buildJob{}, "", fail(field, "the command is too long")
		}
		fmt.Fprintf(&b, "RUN %s\n", line)
	}
	user := base.User
	if user == "" {
		user = "0"
	}
	if strings.ContainsAny(user, "\n\r$\\") {
		return buildJob{}, "", fail("docker.image", "the image runs as a user of impossible name "+printable(user))
	}
	fmt.Fprintf(&b, "USER %s\n", user)
	key := SetupKey(base.ID, commands)
	return buildJob{
		op: op, ref: setupRepo + ":" + key[:16], phase: PhaseSetup, network: "host", dockerfile: b.String(),
		labels: map[string]string{
			labelKind: string(OriginSetup), labelBaseID: base.ID, labelSetup: key,
		},
	}, key, nil
}

// setupError names the command that failed; before is how many instructions stand
// before the first command beside those of every setup.
func setupError(err error, commands []string, before int) error {
	var step *stepError
	if err == nil || !errors.As(err, &step) {
		return err
	}
	i := step.step - setupHead - before - 1
	if i < 0 || i >= len(commands) {
		return err
	}
	e := &sandbox.Error{Code: sandbox.CodeExecution, Op: "apply setup", Field: fmt.Sprintf("docker.setup[%d]", i),
		Message: "the setup command failed: " + clip(printable(commands[i]), 300), Err: errors.New(exitText(step.err)),
		Hint: "it ran as root with network on top of the image; correct it in the settings"}
	if step.output != "" {
		e.Err = fmt.Errorf("%w; its last output:\n%s", e.Err, step.output)
	}
	return e
}

// exitText shortens the engine's "The command '…' returned a non-zero code:
// 7", which repeats the command.
func exitText(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "returned a non-zero code: "); i >= 0 {
		return "exit status " + strings.TrimPrefix(text[i:], "returned a non-zero code: ")
	}
	return text
}

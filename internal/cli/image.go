package cli

import (
	"io"
	"strings"
	"time"

	"github.com/docker/go-units"
	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

func (a *app) imagesCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "images",
		Usage:     "make and show the images that sandboxes are made from",
		UsageText: "sandbox images (build | pull | list | bootstrap | prune) [flags]",
		Subcommands: []*ucli.Command{
			a.imagesBuildCommand(), a.imagesPullCommand(), a.imagesListCommand(), a.imagesBootstrapCommand(), a.imagesPruneCommand(),
		},
	}
}

func (a *app) imagesBuildCommand() *ucli.Command {
	base := text{check: notEmpty}
	var quiet bool
	image, choice := imageChoice("build the image of browsers, "+about.BrowserImage, "build the image of the code interpreter, "+about.CodeImage)
	return &ucli.Command{
		Name:      "build",
		Usage:     "build the default image, " + about.DefaultImage + ", or that of browsers or of the code interpreter",
		UsageText: "sandbox images build [flags]",
		Description: "It is built on " + about.BaseImage + " where that can be had,\n" +
			"and where no registry answers on a base made from this machine's own package sources.",
		Flags: append([]ucli.Flag{&ucli.GenericFlag{Name: "base", Usage: "build on this `IMAGE`", Value: &base}, quietFlag(&quiet)}, choice...),
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.makeImage(quiet, func(s ImageStore, o about.Options) (about.Image, error) {
				var err error
				if o.Image, err = image(c); err != nil {
					return about.Image{}, err
				}
				o.Base = base.value
				return s.Build(c.Context, o)
			})
		},
	}
}

func (a *app) imagesPullCommand() *ucli.Command {
	var quiet bool
	return &ucli.Command{
		Name:      "pull",
		Usage:     "fetch an image from its registry",
		UsageText: "sandbox images pull [flags] IMAGE",
		Flags:     []ucli.Flag{quietFlag(&quiet)},
		Action: func(c *ucli.Context) error {
			if c.Args().Len() != 1 || c.Args().First() == "" {
				return usagef("images pull", "exactly one image is needed")
			}
			return a.makeImage(quiet, func(s ImageStore, o about.Options) (about.Image, error) {
				return s.Pull(c.Context, c.Args().First(), o)
			})
		},
	}
}

// imageChoice are the flags that name the image of browsers and that of the
// code interpreter, and the image that they name.
func imageChoice(browserUsage, codeUsage string) (func(*ucli.Context) (string, error), []ucli.Flag) {
	const browser, code = "browser", "code"
	language := text{check: oneOf(sandbox.Languages()...)}
	return func(c *ucli.Context) (string, error) {
			switch {
			case language.given && (c.Bool(browser) || c.Bool(code)):
				return "", usagef("images", "--language names an image as --browser and --code do; give one of them")
			case language.given:
				return sandbox.LanguageImage(language.value), nil
			case c.Bool(browser) && c.Bool(code):
				return "", usagef("images", "--browser and --code name two images; give one of them")
			case c.Bool(browser):
				return about.BrowserImage, nil
			case c.Bool(code):
				return about.CodeImage, nil
			}
			return about.DefaultImage, nil
		}, []ucli.Flag{
			&ucli.BoolFlag{Name: browser, Usage: browserUsage}, &ucli.BoolFlag{Name: code, Usage: codeUsage},
			&ucli.GenericFlag{Name: "language", Usage: "that for the `LANGUAGE` " + strings.Join(sandbox.Languages(), ", "), Value: &language},
		}
}

func (a *app) imagesBootstrapCommand() *ucli.Command {
	var quiet bool
	image, choice := imageChoice("make it for the image of browsers", "make it for the image of the code interpreter")
	return &ucli.Command{
		Name:      "bootstrap",
		Usage:     "make a base image from this machine's package sources, without a registry",
		UsageText: "sandbox images bootstrap [flags]",
		Flags:     append(choice, quietFlag(&quiet)),
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.makeImage(quiet, func(s ImageStore, o about.Options) (about.Image, error) {
				var err error
				if o.Image, err = image(c); err != nil {
					return about.Image{}, err
				}
				return s.Bootstrap(c.Context, o)
			})
		},
	}
}

func (a *app) imagesListCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "list",
		Usage:     "show the images that this program made",
		UsageText: "sandbox images list [flags]",
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.withImages(false, func(s ImageStore, _ about.Options) error {
				list, err := s.List(c.Context)
				if err != nil {
					return err
				}
				return a.showImages(list)
			})
		},
	}
}

func (a *app) imagesPruneCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "prune",
		Usage:     "remove images of Dockerfiles and layers of docker.setup that no container uses",
		UsageText: "sandbox images prune",
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.withImages(false, func(s ImageStore, _ about.Options) error {
				list, err := s.Prune(c.Context)
				if err != nil {
					return err
				}
				return a.showImages(list)
			})
		},
	}
}

// withImages calls fn with the image store and the way to show progress.
func (a *app) withImages(quiet bool, fn func(ImageStore, about.Options) error) error {
	o := a.options()
	if quiet {
		o.Progress = about.Warnings(o.Progress)
	}
	s, release, err := a.Backend.Images(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(s, about.Options{Progress: o.Progress})
}

// makeImage shows what mk made.
func (a *app) makeImage(quiet bool, mk func(ImageStore, about.Options) (about.Image, error)) error {
	return a.withImages(quiet, func(s ImageStore, o about.Options) error {
		img, err := mk(s, o)
		if err != nil {
			return err
		}
		if a.globals.json() {
			return writeJSON(a.Stdout, viewOf(img))
		}
		_, err = io.WriteString(a.Stdout, termsafe.Line(img.Ref)+" "+termsafe.Line(img.ID)+"\n")
		return err
	})
}

// imageView is an image as JSON shows it.
type imageView struct {
	Ref     string    `json:"ref"`
	ID      string    `json:"id"`
	Tags    []string  `json:"tags"`
	Origin  string    `json:"origin"` // empty: not made by this program
	Stale   bool      `json:"stale"`
	Created time.Time `json:"createdAt"`
	Size    int64     `json:"sizeBytes"`
}

func viewOf(i about.Image) imageView {
	return imageView{Ref: i.Ref, ID: i.ID, Tags: notNil(i.Tags), Origin: string(i.Origin), Stale: i.Stale, Created: i.Created, Size: i.Size}
}

func (a *app) showImages(list []about.Image) error {
	if a.globals.json() {
		views := []imageView{}
		for _, i := range list {
			views = append(views, viewOf(i))
		}
		return writeJSON(a.Stdout, map[string][]imageView{"images": views})
	}
	t := a.newTable([]string{"IMAGE", "ID", "ORIGIN", "SIZE", "AGE", "NOTE"}, "ORIGIN", "ID")
	for _, i := range list {
		note := ""
		if i.Stale {
			note = "made from an older recipe; renew with: sandbox images build"
			if i.Origin == about.OriginBrowser {
				note += " --browser"
			}
			for _, name := range sandbox.Languages() {
				if i.Origin == about.OriginLanguage && strings.HasPrefix(i.Ref, "sandbox-"+name+":") {
					note += " --language " + name
				}
			}
		}
		old := "?"
		if !i.Created.IsZero() {
			old = age(max(0, int64(time.Since(i.Created)/time.Second)))
		}
		tags := strings.Join(i.Tags, " ")
		if tags == "" {
			tags = i.Ref
		}
		t.add(tags, short(i.ID), string(i.Origin), units.BytesSize(float64(i.Size)), old, note)
	}
	return t.write(a.Stdout)
}

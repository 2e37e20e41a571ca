# make help tells what there is. `make test` and `make demo` need nothing but
# Go, git, make and root or sudo: what is missing is installed by `make setup`.

GO ?= go
BIN := $(CURDIR)/bin
GUEST := $(BIN)/sandbox-guest

# Tests skip nothing of what is named here, see internal/testenv.
export SANDBOX_TEST_REQUIRE ?= docker,local
# The guest that tests and commands put into sandboxes.
export SANDBOX_GUEST ?= $(GUEST)
# A clone in another folder finds in Go's cache what one like it has compiled.
export GOFLAGS ?= -trimpath
# A program with the race detector waits a second when it ends, for races that
# what is left of it may still have. Tests start such programs by the hundred;
# what they do is over by then, and a report under way is written all the same.
export GORACE ?= atexit_sleep_ms=0
# The administrator's folders, where Debian keeps dockerd and ip.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

# The name of the image that make daemon-image makes.
DAEMON_IMAGE ?= sandbox-daemon:latest

# How go test runs: make lint has vetted the packages, and a result from before
# says nothing about the engines and programs that tests run. -w leaves out what
# debuggers read, which takes a third of the time of linking.
TEST_FLAGS ?= -race -count=1 -vet=off -ldflags=-w -timeout 45m
# The tests with a cluster hold times, and their programs share the processors with
# the cluster: they run without the race detector. With it, make test runs what they
# share with the tests that play the API server.
KUBE_TEST_FLAGS ?= -count=1 -vet=off -ldflags=-w -timeout 25m
# Which Go benchmarks, and what else the program of `make bench` is told; with
# DOC=1 it puts its table into docs/performance.md.
BENCH ?= .
BENCH_FLAGS ?=
DOC ?=
PKGS ?= ./...

# Flags of the test binaries of `make test-podman`, such as -test.run=TestConformance.
PODMAN_TEST_FLAGS ?=

# Programs carry the commit, and the version that its tag gives it.
STAMP ?= -buildvcs=auto

.DEFAULT_GOAL := help
.PHONY: help build setup image browser-image code-image playwright sshd inspector clients clients-generate console redocly kube kube-stop helm manifests dist test-dist dist-images daemon-image check test test-clients test-kube test-languages test-machine test-podman test-v2 test-all lint fuzz bench gobench demo demo-server schemas settings-docs openapi cover clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 15

build: ## build bin/sandbox and the parts beside it: -engine, -daemon, -guest and -guest-tls
	@mkdir -p $(BIN)/.built
	CGO_ENABLED=0 $(GO) build $(STAMP) -trimpath -ldflags "-s -w" -o $(BIN)/.built/sandbox-guest ./cmd/sandbox-guest
	CGO_ENABLED=0 $(GO) build $(STAMP) -trimpath -ldflags "-s -w" -tags sandbox_guest_tls -o $(BIN)/.built/sandbox-guest-tls ./cmd/sandbox-guest
	CGO_ENABLED=0 $(GO) build $(STAMP) -trimpath -ldflags "-s -w" -tags urfave_cli_no_docs -o $(BIN)/.built/sandbox-daemon ./cmd/sandbox
	CGO_ENABLED=0 $(GO) build $(STAMP) -trimpath -ldflags "-s -w" -tags urfave_cli_no_docs,sandbox_engine -o $(BIN)/.built/sandbox-engine ./cmd/sandbox
	CGO_ENABLED=0 $(GO) build $(STAMP) -trimpath -ldflags "-s -w" -tags urfave_cli_no_docs,sandbox_front -o $(BIN)/.built/sandbox ./cmd/sandbox
	@scripts/place.sh $(BIN)/.built $(BIN) sandbox-guest sandbox-guest-tls sandbox-daemon sandbox-engine sandbox

setup: ## install what is missing and start a Docker engine where none answers
	@scripts/setup.sh

image: setup build ## make the image of sandboxes unless it is there
	@scripts/image.sh $(BIN)/sandbox

browser-image: setup build ## make the image of browsers unless it is there; the first browser does it too
	@scripts/image.sh $(BIN)/sandbox --browser

code-image: setup build ## make the image of the code interpreter unless it is there; its first use does it too
	@scripts/image.sh $(BIN)/sandbox --code

playwright: setup ## install the client that tests drive browsers with, into bin/playwright
	@scripts/playwright.sh $(BIN)/playwright

sshd: setup ## unpack the ssh server that tests fetch media from, into bin/sshd
	@scripts/sshd.sh $(BIN)/sshd

inspector: setup ## install the client that tests hold the MCP server against, into bin/inspector
	@scripts/inspector.sh $(BIN)/inspector

# What the clients of this tree and of other systems are tested with, each in bin/NAME:
# the clients of E2B, of the OpenAI Agents SDK and of SWE-ReX; what clients/python and
# clients/typescript are built and tested with; the frameworks that they have adapters
# for; what the page of the web console is built and looked through with; and Claude Code
# and Codex (700 MB), which make test-all runs in sandboxes.
CLIENTS := e2b agents swerex pyclient tsclient pyadapters adapters webconsole
.PHONY: $(CLIENTS) codingagents
$(CLIENTS) codingagents: setup
	@scripts/clients.sh $@ $(BIN)/$@

clients: $(CLIENTS) ## install what the clients of this tree and of other systems are tested with

clients-generate: pyclient tsclient ## write the generated code of clients/ anew from docs/openapi.json
	$(BIN)/pyclient/python/bin/python clients/python/scripts/generate.py
	$(BIN)/tsclient/node_modules/node-linux-*/bin/node $(BIN)/tsclient/node_modules/openapi-typescript/bin/cli.js docs/openapi.json -o clients/typescript/src/generated/openapi.ts

console: webconsole ## build the page of the web console anew, from server/console/web into server/console/dist
	scripts/console.sh $(BIN)/webconsole server/console/dist

kube: setup ## build a Kubernetes cluster of one node from its sources, unless it is cached, and start it; as root
	@scripts/kube.sh start

kube-stop: ## end the cluster of make kube, and remove what it made
	@scripts/kube.sh stop

helm: ## build the program that renders the chart, into bin/helm, unless it is cached
	@scripts/helm.sh $(BIN)/helm

manifests: helm ## write deploy/kubernetes anew from deploy/helm/sandbox
	@scripts/manifests.sh $(BIN)/helm deploy/kubernetes

dist: ## make packages, archives, an image of the daemon, and checksums of this commit in bin/dist (ARCHES)
	@rm -rf $(BIN)/dist
	@scripts/dist.sh $(BIN)/dist

test-dist: dist image ## install the packages on a fresh Debian and use them, and check what else is made, as root
	@scripts/dist-tools.sh
	SANDBOX_TEST_REQUIRE=root,dist,docker $(GO) test -count=1 -vet=off -run '^TestDist' ./cmd/sandbox

test-machine: dist ## use the package on a fresh Debian in a virtual machine, with the local provider, Podman without root and the service; as root
	scripts/test-machine.sh $(BIN)/dist

test-languages: setup build ## run the tests of projects in five languages with their registries, and compare their times with plain containers
	SANDBOX_TEST_REQUIRE=docker,root,languages $(GO) test -count=1 -vet=off -timeout 40m -run '^TestLanguages' ./cmd/sandbox
	$(GO) build -trimpath -o $(BIN)/sandbox-bench ./internal/bench
	$(BIN)/sandbox-bench --only '^(npm ci|pip install|go test|cargo test|mvn)'

dist-images: image browser-image code-image ## write the images of sandboxes as OCI archives into bin/images
	@scripts/dist-images.sh $(BIN)/images

daemon-image: setup build ## make the image of the daemon for clusters, sandbox-daemon:latest (DAEMON_IMAGE)
	@scripts/daemon-image.sh $(BIN) "$(DAEMON_IMAGE)"

redocly: setup ## install the linter of docs/openapi.json, into bin/redocly
	@scripts/redocly.sh $(BIN)/redocly

check: build ## gofmt, vet, and the quick tests: no engine, no race detector
	@unformatted="$$(gofmt -l .)" || exit 1; \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(PKGS)
	SANDBOX_TEST_REQUIRE= scripts/test.sh --quick $(PKGS)

test: image browser-image code-image playwright sshd redocly helm ## run the tests, with the race detector
	TEST_FLAGS="$(TEST_FLAGS)" scripts/test.sh $(PKGS)

test-clients: image browser-image code-image inspector clients ## run the tests with the clients and frameworks of others
	TEST_FLAGS="$(TEST_FLAGS)" scripts/test.sh --clients $(PKGS)

test-kube: image helm e2b ## run the tests that need a Kubernetes cluster, which is built once, started and stopped; as root
	TEST_FLAGS="$(KUBE_TEST_FLAGS)" scripts/test-kube.sh $(PKGS)

test-podman: image ## run the tests of the provider docker with a Podman without root, which is installed, started and removed; as root
	TEST_FLAGS="$(PODMAN_TEST_FLAGS)" scripts/podman.sh test

test-v2: build ## run the tests of control groups in a virtual machine with version 2 alone, which is made once
	scripts/test-v2.sh

test-all: export SANDBOX_TEST_ALL = 1
test-all: TEST_FLAGS = -race -count=1 -vet=off -ldflags=-w -timeout 90m
test-all: inspector clients codingagents test ## run every test with every shell, transport and user, mutants and soaks; takes an hour or more

schemas: ## write docs/schemas anew from the types
	$(GO) test ./server/resource -run TestCommitted -update

settings-docs: ## write the tables of docs/settings*.md anew from the schema
	$(GO) test ./config -run TestSettingsPages -update

openapi: ## write docs/openapi.json and docs/routes.md anew from the routes
	$(GO) test ./cmd/sandbox -run "TestOpenAPIIsFresh|TestRoutesPageIsFresh" -update

lint: ## gofmt, vet and staticcheck, and build and vet for macOS
	@unformatted="$$(gofmt -l .)" || exit 1; \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(PKGS)
	$(GO) tool staticcheck $(PKGS)
	$(GO) vet -tags sandbox_guest_tls ./guest/server ./cmd/sandbox-guest
	@GO="$(GO)" scripts/darwin.sh

fuzz: build ## run every fuzz target for FUZZTIME (1m) each; PKGS=./policy/... for some
	@scripts/fuzz.sh $(PKGS)

bench: image browser-image e2b ## compare with the plain engine (DOC=1 records it, BENCH_FLAGS=--quick is short)
	$(GO) build -trimpath -o $(BIN)/sandbox-bench ./internal/bench
	$(BIN)/sandbox-bench $(if $(DOC),--doc docs/performance.md) $(BENCH_FLAGS)

gobench: image browser-image code-image ## run the Go benchmarks of the packages (BENCH=pattern, PKGS=packages)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 45m $(PKGS)

demo: image ## run an untrusted program in a sandbox and show what it could not do
	@scripts/demo.sh

demo-server: image ## start the server, and show a session of two tenants with curl
	@scripts/demo-server.sh

cover: image code-image playwright sshd inspector clients redocly helm ## run every test and show the coverage by function
	$(GO) test $(TEST_FLAGS) -coverprofile=cover.out $(PKGS)
	$(GO) tool cover -func=cover.out

clean: ## remove what was built; images and the engine stay
	rm -rf $(BIN) cover.out

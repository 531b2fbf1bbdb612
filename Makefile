# Glassback needs Go, make and git, and nothing else: all other tools are built from
# source, as pinned in hack/tools/go.mod.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# What the environment says of modules must not change what is built, or go.mod. The
# version is stamped below, and not by go build, which fails where git does.
export GOWORK := off
export GOFLAGS := $(strip $(filter-out -mod=% -buildvcs=%,$(GOFLAGS)) -buildvcs=false)

MODULES := . $(patsubst %/go.mod,%,$(wildcard hack/*/go.mod))
SHELL_SCRIPTS := .ci/run $(wildcard hack/*.sh hack/*/*.sh)

# The date is that of the commit, so that two builds of a commit are the same.
GIT := GIT_OPTIONAL_LOCKS=0 TZ=UTC git
VERSION = $(shell $(GIT) describe --tags --match 'v*' --dirty 2>/dev/null || echo dev)
COMMIT = $(shell $(GIT) describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null || echo unknown)
DATE = $(shell $(GIT) log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
APP := github.com/glassback/glassback/pkg/version
LDFLAGS = -X $(APP).version=$(VERSION) -X $(APP).commit=$(COMMIT) -X $(APP).date=$(DATE)

# What is built needs no C library, and so runs in any image. The race detector does need a C compiler: without one tests run without it, and
# "make test" says so.
ifndef RACE_CGO
RACE_CGO := $(shell go env CGO_ENABLED)
endif
export RACE_CGO # for the makes that this one calls
export CGO_ENABLED := 0
RACE = $(if $(filter 1,$(RACE_CGO)),-race)
# The tests that were skipped, one a line.
SKIPPED := "$(CURDIR)/bin/skipped.txt"
# What failed tests keep: events, objects, logs. Those that look at the page always keep what they have seen.
ARTIFACTS := "$(CURDIR)/bin/artifacts"
# What the tests on a real API server run.
BINARIES := DEVCLUSTER_BIN="$(CURDIR)/bin/devcluster" GLASSBACK_BIN="$(CURDIR)/bin/glassback" ECSSIM_BIN="$(CURDIR)/bin/ecssim"

# What "make image" and "make docker-build" call the image, and what is installed.
IMG ?= glassback/glassback:dev
# What is installed, of artifacts: default, default-certmanager, namespaced, or a directory of yours.
MANIFESTS ?= default
# What builds the Dockerfile, and what it is told.
CONTAINER_TOOL ?= docker
BUILD_ARGS = --build-arg VERSION="$(VERSION)" --build-arg COMMIT="$(COMMIT)" --build-arg DATE="$(DATE)"
PLATFORMS ?= linux/amd64,linux/arm64

# kubectl, or the one in devcluster where there is none.
KUBECTL := $(shell command -v kubectl 2>/dev/null)
ifeq ($(KUBECTL),)
KUBECTL := bin/tools/kubectl
KUBECTL_BUILD := bin/tools/kubectl
endif

define need_kubeconfig
@if [ -z "$${KUBECONFIG:-}" ]; then \
	echo "make $@: KUBECONFIG is not set: say which cluster, such as: make $@ KUBECONFIG=\$$HOME/.kube/config" >&2; exit 1; \
elif ! (IFS=:; for file in $$KUBECONFIG; do [ ! -e "$$file" ] || exit 0; done; exit 1); then \
	echo "make $@: there is no file $$KUBECONFIG, which KUBECONFIG names" >&2; exit 1; \
fi
endef

##@ See it

.PHONY: help
help: ## Show this
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo

.PHONY: demo
demo: build devcluster ecssim node bin/demo ## Run it all here: a cluster, the operator, every example; ends with Ctrl-C (ONCE=1: when all are Ready)
	@bin/demo $(if $(filter-out 0 no false,$(ONCE)),--once) $(if $(NODE),--node $(NODE))

.PHONY: bin/demo
bin/demo:
	@cd hack/devcluster && go build -o ../../$@ ./demo

##@ Build

.PHONY: build
build: ## Build bin/glassback, the operator
	@go build -ldflags "$(LDFLAGS)" -o bin/glassback .

.PHONY: devcluster
devcluster: ## Build bin/devcluster, a Kubernetes cluster for the demo and tests (minutes at first, then seconds)
	@hack/devcluster/build.sh bin/devcluster

.PHONY: ecssim
ecssim: ## Build bin/ecssim, an ECS of Alibaba Cloud whose instances are numbers, to try ECSInstances without an account
	@go build -o bin/ecssim ./hack/ecssim/cmd

.PHONY: node
node: ## Install what devcluster's real node needs (root on Debian or Ubuntu), and make its images; elsewhere say what is missing
	@hack/devcluster/node.sh bin/images

.PHONY: image
image: bin/tools/mkimage ## Make bin/glassback.tar, the operator's image, for docker load and devcluster load (IMG=NAME:TAG: its name)
	@GOOS=linux go build -ldflags "-s -w $(LDFLAGS)" -o bin/linux/glassback .
	@bin/tools/mkimage binary --name "$(IMG)" --entrypoint /glassback --output bin/glassback.tar bin/linux/glassback

.PHONY: release
release: bin/tools/release ## Make all files of a release in dist (VERSION=v1.2.3; KEY=FILE: signs them; see docs/release.md)
	@rm -rf dist
	@bin/tools/release make --version "$(VERSION)" --commit "$(COMMIT)" --date "$(DATE)" $(if $(BASE_URL),--base-url "$(BASE_URL)") \
		$(RELEASE_IMAGE) $(if $(KEY),--key "$(KEY)")

.PHONY: publish
publish: bin/tools/release ## Push the image of dist, and upload dist to GitHub (VERSION=v1.2.3; IMAGE=NAME; DRY_RUN=1: print it alone)
	@bin/tools/release publish --version "$(VERSION)" $(RELEASE_IMAGE) $(if $(filter-out 0 no false,$(DRY_RUN)),--dry-run)

RELEASE_IMAGE = $(if $(IMAGE),--image "$(IMAGE)")

.PHONY: bin/tools/release
bin/tools/release:
	@mkdir -p $(@D) && cd hack/release && go build -o ../../$@ .

.PHONY: docker-build
docker-build: ## Build the image from the Dockerfile (CONTAINER_TOOL=podman: with another tool than docker)
	$(CONTAINER_TOOL) build $(BUILD_ARGS) --tag "$(IMG)" .

.PHONY: docker-push
docker-push: ## Push the image IMG to its registry
	$(CONTAINER_TOOL) push "$(IMG)"

.PHONY: docker-buildx
docker-buildx: ## Build the image for several architectures, and push it (PLATFORMS=linux/amd64,linux/arm64)
	$(CONTAINER_TOOL) buildx build --platform "$(PLATFORMS)" $(BUILD_ARGS) --tag "$(IMG)" --push .

.PHONY: build-installer
build-installer: $(KUBECTL_BUILD) ## Make dist/install.yaml, all that there is to apply (IMG=NAME:TAG: the image; MANIFESTS=namespaced: see docs/install.md)
	@mkdir -p dist && hack/render.sh $(KUBECTL) $(MANIFESTS) "$(IMG)" >dist/install.yaml.new && mv dist/install.yaml.new dist/install.yaml

.PHONY: bin/tools/mkimage
bin/tools/mkimage:
	@mkdir -p $(@D) && cd hack/devcluster && go build -o ../../$@ ./mkimage

.PHONY: generate
generate: ## Make generated code and CRDs anew from pkg/apis, the chart's templates from other manifests, tables in docs
	hack/update-codegen.sh
	@cd hack/chart && go run .
	@go run ./hack/tables

.PHONY: fmt
fmt: ## Format the code
	gofmt -s -w .

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist

##@ Use it on the cluster of KUBECONFIG

# The field manager is the one of --install-crds: a field that the next definition does not have has no owner left, and goes.
APPLY = $(KUBECTL) apply --server-side --field-manager=glassback --force-conflicts

.PHONY: install
install: $(KUBECTL_BUILD) ## Apply the CustomResourceDefinitions
	$(need_kubeconfig)
	$(APPLY) -f artifacts/crd

.PHONY: uninstall
uninstall: $(KUBECTL_BUILD) ## Delete the CustomResourceDefinitions, and with them every object of theirs
	$(need_kubeconfig)
	@instances=$$($(KUBECTL) get ecsinstances --all-namespaces --output name 2>/dev/null || true); if [ -n "$$instances" ]; then \
		echo "make $@: there are ECSInstances, which wait for an operator to end their instances: delete them first, while one runs" >&2; \
		echo "$$instances" >&2; exit 1; \
	fi
	@echo "Deleting Glassback's CustomResourceDefinitions. This deletes all of their objects too, in every namespace, and what those own."
	$(KUBECTL) delete --ignore-not-found -f artifacts/crd

.PHONY: deploy
deploy: $(KUBECTL_BUILD) ## Install or upgrade all of it, with the CustomResourceDefinitions, and wait (IMG=NAME:TAG: the image)
	$(need_kubeconfig)
	hack/render.sh $(KUBECTL) $(MANIFESTS) "$(IMG)" | $(APPLY) -f -
	$(KUBECTL) rollout status --namespace glassback-system deployment/glassback-manager --timeout=5m

# The objects of users need the definitions, so these stay. Objects in the operator's own namespace would go with it, or keep it from going.
.PHONY: undeploy
undeploy: $(KUBECTL_BUILD) ## Delete what deploy has installed, but for the CustomResourceDefinitions and objects of theirs
	$(need_kubeconfig)
	@objects=$$($(KUBECTL) get glassback --namespace glassback-system --output name 2>/dev/null || true); if [ -n "$$objects" ]; then \
		echo "make $@: these are in the namespace glassback-system, which goes too: delete them first, while the operator runs" >&2; \
		echo "$$objects" >&2; exit 1; \
	fi
	hack/render.sh --without-crds $(KUBECTL) $(MANIFESTS) "$(IMG)" | $(KUBECTL) delete --ignore-not-found -f -
	@echo "The CustomResourceDefinitions, and all objects of theirs, are still there: docs/install.md says how to delete them."

.PHONY: run
run: build ## Run the operator from source (ARGS="-v=2 --namespace default": more flags)
	$(need_kubeconfig)
	@exec bin/glassback --kubeconfig "$$KUBECONFIG" $(ARGS)

bin/tools/kubectl: devcluster
	@mkdir -p $(@D) && ln -sf ../devcluster $@

##@ Test

.PHONY: test
test: ## Verify, then run every test; the last line says what was skipped
	@mkdir -p bin && rm -f $(SKIPPED)
	@hack/steps.sh test verify unit build devcluster ecssim node integration
	@if [ -s $(SKIPPED) ]; then echo "skipped: $$(sed ':a;N;$$!ba;s/\n/; /g' $(SKIPPED))"; else echo "skipped: nothing"; fi

.PHONY: quick
quick: verify-format build ## Build, and run the unit tests that take seconds, without the race detector
	@go test -short ./...

.PHONY: verify
verify: ## Check all that can be checked without running it: verify-*, vet and lint
	@hack/steps.sh verify verify-format verify-shell verify-modules verify-codegen vet lint

.PHONY: verify-format
verify-format: ## Check that the code is formatted
	@unformatted=$$(gofmt -s -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:" >&2; echo "$$unformatted" >&2; exit 1; fi

.PHONY: verify-shell
verify-shell: ## Check that shell scripts parse
	@for script in $(SHELL_SCRIPTS); do bash -n "$$script"; done

# With other versions, a module compiles Kubernetes' packages once more.
.PHONY: verify-modules
verify-modules: ## Check that every go.mod and go.sum is tidy, and that all modules require the same versions
	@for module in $(MODULES); do \
		(cd $$module && go mod tidy -diff) || { echo "$$module/go.mod is not tidy: run go mod tidy there" >&2; exit 1; }; \
	done
	@awk '{ sub("^require ", "") } \
		$$2 ~ /^v[0-9]/ && $$1 in version && version[$$1] != $$2 { \
			print FILENAME ": " $$1 " " $$2 ", but " file[$$1] " requires " version[$$1] ": run go get " $$1 "@VERSION where it is lower"; bad = 1 } \
		$$2 ~ /^v[0-9]/ { version[$$1] = $$2; file[$$1] = FILENAME } \
		END { exit bad }' $(MODULES:%=%/go.mod) >&2

.PHONY: verify-codegen
verify-codegen: ## Check that generated code and CRDs are up to date
	hack/verify-codegen.sh

# Both programs analyse what a package imports. The two packages that link all of Kubernetes only name its programs: go vet would take six
# minutes for them, and golangci-lint would hold all of Kubernetes in memory. The compiler checks them.
CHECKED = go list -f '{{.Dir}}' ./... | grep -v -e /hack/devcluster$$ -e /hack/devcluster/components$$ | tr '\n' '\0' | xargs -0

.PHONY: vet
vet: ## Run go vet on every module
	@for module in $(MODULES); do echo "go vet: $$module"; (cd $$module && $(CHECKED) go vet); done

.PHONY: translations
translations: ## List the paragraphs of translated documents whose originals have changed since
	@go run ./hack/translations

.PHONY: lint
lint: bin/tools/golangci-lint ## Run golangci-lint on every module (.golangci.yml)
	@failed=; for module in $(MODULES); do \
		echo "golangci-lint: $$module"; \
		(cd $$module && $(CHECKED) "$(CURDIR)/bin/tools/golangci-lint" run --config "$(CURDIR)/.golangci.yml") || failed=yes; \
	done; [ -z "$$failed" ]

.PHONY: vulnerabilities
vulnerabilities: bin/tools/govulncheck ## Look for known vulnerabilities that the code reaches (needs a network)
	@bin/tools/govulncheck ./...

# The image contains this program, certificates, and no other software.
.PHONY: scan
scan: bin/tools/govulncheck ## Look for known vulnerabilities in the image's programs of dist (VERSION=v1.2.3; needs a network)
	@rm -rf bin/scan && mkdir -p bin/scan
	@for arch in amd64 arm64; do \
		tar -xzOf "dist/glassback-$(VERSION)-linux-$$arch.tar.gz" glassback >"bin/scan/glassback-$$arch"; \
		bin/tools/govulncheck -mode=binary "bin/scan/glassback-$$arch"; \
	done
	@go run github.com/anchore/grype/cmd/grype@$(GRYPE) --fail-on high dir:bin/scan

GRYPE := v0.121.2

.PHONY: redis
redis: ## Install the redis-server that tests run, where there is none (root on Debian or Ubuntu); elsewhere say that it is missing
	@hack/redis.sh

.PHONY: shells
shells: ## Install the zsh and fish that tests run, where there is none (root on Debian or Ubuntu); elsewhere say that one is missing
	@for shell in zsh fish; do command -v $$shell >/dev/null || hack/package.sh $$shell $$shell; done

.PHONY: browser
browser: ## Install the Chromium (root on Debian) and the axe-core (npm) with which tests look at the page, or report what is missing
	@hack/browser.sh
	@hack/axe.sh

# Without the packages that have no tests: go test would compile them too, and all of Kubernetes with them. Without go vet: make vet runs it, and
# here it would run once more for the race detector. Without what only debuggers read, a third of the linker's time.
TESTS = -vet=off -ldflags='-s -w' $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)

.PHONY: unit
unit: redis shells bin/tools/gotest ## Run the tests that need no cluster: nothing but Go, a redis-server, zsh and fish
	$(no_race)
	@for module in . hack/tools hack/bench hack/chart hack/release; do \
		(cd $$module && CGO_ENABLED=$(RACE_CGO) "$(CURDIR)/bin/tools/gotest" $(SKIPPED) $(RACE) -timeout 30m $(TESTS)); \
	done
	@$(MAKE) decisions

.PHONY: decisions
decisions: build ## Show which recorded decisions this code changes: that is for the review, and no failure (FILES=FILE|DIR: others)
	@bin/glassback replay $(or $(FILES),pkg/replay/testdata) || [ $$? -eq 2 ]

# One package at a time: they measure, and start clusters.
.PHONY: integration
integration: build devcluster ecssim node browser image bin/tools/gotest bin/tools/helm bin/tools/release ## Run the tests on a real API server (bin/artifacts: what those that fail keep, and pictures)
	@cd hack/devcluster && CGO_ENABLED=$(RACE_CGO) $(BINARIES) "$(CURDIR)/bin/tools/gotest" -artifacts $(ARTIFACTS) $(SKIPPED) \
		$(RACE) -p 1 -count=1 -timeout 65m $(TESTS)
	@cd hack/prometheus && $(BINARIES) "$(CURDIR)/bin/tools/gotest" $(SKIPPED) -count=1 -timeout 10m $(TESTS)

.PHONY: worlds
worlds: ## Run random worlds of ECSInstances, in which everything goes wrong (WORLDS=50000: so many; SEED=1: from this one on)
	go test -count=1 -timeout 0 -run '^TestRandomWorlds$$' ./pkg/controller/ecsinstance -ecs.runs=$(or $(WORLDS),50000) -ecs.seed=$(or $(SEED),1)

.PHONY: mutants
mutants: ## Take each guard of docs/architecture.md out of the code: a test must fail (ONLY=REGEXP: of the guard, the file or the test)
	@go run ./hack/mutants/cmd -only '$(ONLY)'

.PHONY: bench
bench: build devcluster ## Run the benchmarks, of the packages and on a real API server (BENCH=REGEXP: only those)
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem ./...
	@cd hack/devcluster && $(BINARIES) go test -run '^$$' -bench '$(or $(BENCH),.)' -timeout 60m ./e2e

.PHONY: bench-compare
bench-compare: build devcluster ## Compare the operator with a controller-runtime one and a bare client (ARGS="-smoke", or "-only burst500 -rounds 2")
	@mkdir -p bin/bench && cd hack/bench && go build -o ../../bin/bench . ./peer ./bare
	@cd hack/bench && ../../bin/bench/bench $(ARGS)

define no_race
@$(if $(RACE),:,echo "the race detector: it needs a C compiler, and CGO_ENABLED=1" >> $(SKIPPED))
endef

bin/tools/golangci-lint: hack/tools/go.mod hack/tools/go.sum
	@echo "golangci-lint: the first build takes some minutes"
	@cd hack/tools && go build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/tools/helm: hack/chart/go.mod hack/chart/go.sum
	@echo "helm: the first build takes some minutes"
	@cd hack/chart && go build -o ../../$@ helm.sh/helm/v4/cmd/helm

bin/tools/govulncheck: hack/release/go.mod hack/release/go.sum
	@mkdir -p $(@D) && cd hack/release && go build -o ../../$@ golang.org/x/vuln/cmd/govulncheck

.PHONY: bin/tools/gotest
bin/tools/gotest:
	@mkdir -p bin && cd hack/tools && go build -o ../../$@ ./gotest

# Glassback needs only Go, make and git. All other tools are built from source, at the
# versions in hack/tools/go.mod and hack/chart/go.mod.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# Module settings in the environment must not change the binaries or go.mod. LDFLAGS sets the version: go build would fail if git fails.
export GOWORK := off
export GOFLAGS := $(strip $(filter-out -mod=% -buildvcs=%,$(GOFLAGS)) -buildvcs=false)

MODULES := . $(patsubst %/go.mod,%,$(wildcard hack/*/go.mod))
SHELL_SCRIPTS := .ci/run $(wildcard hack/*.sh hack/*/*.sh)

# DATE is the date of the commit, so that two builds of a commit are the same.
GIT := GIT_OPTIONAL_LOCKS=0 TZ=UTC git
VERSION = $(shell $(GIT) describe --tags --match 'v*' --dirty 2>/dev/null || echo dev)
COMMIT = $(shell $(GIT) describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null || echo unknown)
DATE = $(shell $(GIT) log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
APP := github.com/glassback/glassback/pkg/version
LDFLAGS = -X $(APP).version=$(VERSION) -X $(APP).commit=$(COMMIT) -X $(APP).date=$(DATE)

# Programs are built without a C library, and so run in any image. The race detector needs a C compiler. If there is none, tests run without
# the race detector, and "make test" says so.
ifndef RACE_CGO
RACE_CGO := $(shell go env CGO_ENABLED)
endif
export RACE_CGO # for the makes that this one calls
export CGO_ENABLED := 0
RACE = $(if $(filter 1,$(RACE_CGO)),-race)
# The skipped tests, one on each line.
SKIPPED := "$(CURDIR)/bin/skipped.txt"
# Failed tests keep events, objects and logs here. Tests of the page always keep their pictures.
ARTIFACTS := "$(CURDIR)/bin/artifacts"
# The programs that the tests on a real API server run.
BINARIES := DEVCLUSTER_BIN="$(CURDIR)/bin/devcluster" GLASSBACK_BIN="$(CURDIR)/bin/glassback" ECSSIM_BIN="$(CURDIR)/bin/ecssim"

# The name of the image that "make image" and "make docker-build" make, and that "make deploy" installs.
IMG ?= glassback/glassback:dev
# The directory of artifacts to install: default, default-certmanager, default-inspect, namespaced, or one of your own.
MANIFESTS ?= default
# The program that builds the Dockerfile, and its arguments.
CONTAINER_TOOL ?= docker
BUILD_ARGS = --build-arg VERSION="$(VERSION)" --build-arg COMMIT="$(COMMIT)" --build-arg DATE="$(DATE)"
PLATFORMS ?= linux/amd64,linux/arm64

# kubectl; if there is none in PATH, the one in devcluster.
KUBECTL := $(shell command -v kubectl 2>/dev/null)
ifeq ($(KUBECTL),)
KUBECTL := bin/tools/kubectl
KUBECTL_BUILD := bin/tools/kubectl
endif

define need_kubeconfig
@if [ -z "$${KUBECONFIG:-}" ]; then \
	echo "make $@: KUBECONFIG is not set. Name the cluster, for example: make $@ KUBECONFIG=\$$HOME/.kube/config" >&2; exit 1; \
elif ! (IFS=:; for file in $$KUBECONFIG; do [ ! -e "$$file" ] || exit 0; done; exit 1); then \
	echo "make $@: KUBECONFIG names the file $$KUBECONFIG, which does not exist" >&2; exit 1; \
fi
endef

##@ Try it

.PHONY: help
help: ## List all targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo

.PHONY: demo
demo: build devcluster ecssim node bin/demo ## Run a cluster, the operator and every example, until Ctrl-C (ONCE=1: until all are Ready)
	@bin/demo $(if $(filter-out 0 no false,$(ONCE)),--once) $(if $(NODE),--node $(NODE))

.PHONY: bin/demo
bin/demo:
	@cd hack/devcluster && go build -o ../../$@ ./demo

##@ Build

.PHONY: build
build: ## Build bin/glassback, the operator
	@echo "building bin/glassback: seconds, or a minute without a build cache" >&2
	@go build -ldflags "$(LDFLAGS)" -o bin/glassback .

.PHONY: devcluster
devcluster: ## Build bin/devcluster, a Kubernetes cluster for the demo and tests (the first build takes minutes)
	@hack/devcluster/build.sh bin/devcluster

.PHONY: ecssim
ecssim: ## Build bin/ecssim, a simulator of Alibaba Cloud's ECS, to try ECSInstances without an account
	@go build -o bin/ecssim ./hack/ecssim/cmd

.PHONY: node
node: ## Install packages for devcluster's real node, and make its images (as root on Debian or Ubuntu), or report what is missing
	@hack/devcluster/node.sh bin/images

.PHONY: image
image: bin/tools/mkimage ## Make bin/glassback.tar, the operator's image, for docker load and devcluster load (IMG=NAME:TAG: the name)
	@GOOS=linux go build -ldflags "-s -w $(LDFLAGS)" -o bin/linux/glassback .
	@bin/tools/mkimage binary --name "$(IMG)" --entrypoint /glassback --output bin/glassback.tar bin/linux/glassback

.PHONY: release
release: bin/tools/release ## Make all files of a release in dist (VERSION=v1.2.3; KEY=FILE: sign them; see docs/release.md)
	@rm -rf dist
	@bin/tools/release make --version "$(VERSION)" --commit "$(COMMIT)" --date "$(DATE)" $(if $(BASE_URL),--base-url "$(BASE_URL)") \
		$(RELEASE_IMAGE) $(if $(KEY),--key "$(KEY)")

.PHONY: publish
publish: bin/tools/release ## Push the image of dist, and upload dist to GitHub (VERSION=v1.2.3; IMAGE=NAME; DRY_RUN=1: only print this)
	@bin/tools/release publish --version "$(VERSION)" $(RELEASE_IMAGE) $(if $(filter-out 0 no false,$(DRY_RUN)),--dry-run)

RELEASE_IMAGE = $(if $(IMAGE),--image "$(IMAGE)")

.PHONY: bin/tools/release
bin/tools/release:
	@mkdir -p $(@D) && cd hack/release && go build -o ../../$@ .

.PHONY: docker-build
docker-build: ## Build the image from the Dockerfile (CONTAINER_TOOL=podman: with podman instead of docker)
	$(CONTAINER_TOOL) build $(BUILD_ARGS) --tag "$(IMG)" .

.PHONY: docker-push
docker-push: ## Push the image IMG to its registry
	$(CONTAINER_TOOL) push "$(IMG)"

.PHONY: docker-buildx
docker-buildx: ## Build the image for several architectures, and push it (PLATFORMS=linux/amd64,linux/arm64)
	$(CONTAINER_TOOL) buildx build --platform "$(PLATFORMS)" $(BUILD_ARGS) --tag "$(IMG)" --push .

.PHONY: build-installer
build-installer: $(KUBECTL_BUILD) ## Make dist/install.yaml, with all manifests (IMG=NAME:TAG: the image; MANIFESTS=namespaced)
	@mkdir -p dist && hack/render.sh $(KUBECTL) $(MANIFESTS) "$(IMG)" >dist/install.yaml.new && mv dist/install.yaml.new dist/install.yaml

.PHONY: bin/tools/mkimage
bin/tools/mkimage:
	@mkdir -p $(@D) && cd hack/devcluster && go build -o ../../$@ ./mkimage

.PHONY: generate
generate: ## Generate code and CRDs from pkg/apis, the chart's templates from other manifests, and tables in docs
	hack/update-codegen.sh
	@cd hack/chart && go run .
	@go run ./hack/tables

.PHONY: fmt
fmt: ## Format the code
	gofmt -s -w .

.PHONY: clean
clean: ## Remove bin and dist
	rm -rf bin dist

##@ Install it on the cluster of KUBECONFIG

# The field manager is the same as that of --install-crds. So an upgrade removes each field that the next definition does not have.
APPLY = $(KUBECTL) apply --server-side --field-manager=glassback --force-conflicts

.PHONY: install
install: $(KUBECTL_BUILD) ## Apply the CustomResourceDefinitions
	$(need_kubeconfig)
	$(APPLY) -f artifacts/crd

.PHONY: uninstall
uninstall: $(KUBECTL_BUILD) ## Delete the CustomResourceDefinitions, and all of their objects
	$(need_kubeconfig)
	@instances=$$($(KUBECTL) get ecsinstances --all-namespaces --output name 2>/dev/null || true); if [ -n "$$instances" ]; then \
		echo "make $@: an operator has to delete the instances of these ECSInstances: delete them first, while it runs" >&2; \
		echo "$$instances" >&2; exit 1; \
	fi
	@echo "Deleting Glassback's CustomResourceDefinitions. This also deletes their objects in every namespace, and all that these objects own."
	$(KUBECTL) delete --ignore-not-found -f artifacts/crd

.PHONY: deploy
deploy: $(KUBECTL_BUILD) ## Install or upgrade the operator and the CustomResourceDefinitions, and wait (IMG=NAME:TAG: the image)
	$(need_kubeconfig)
	hack/render.sh $(KUBECTL) $(MANIFESTS) "$(IMG)" | $(APPLY) -f -
	$(KUBECTL) rollout status --namespace glassback-system deployment/glassback-manager --timeout=5m

# The objects of users need the definitions, so the definitions stay. The deletion of the operator's namespace would also delete the objects
# in it, or wait for their finalizers.
.PHONY: undeploy
undeploy: $(KUBECTL_BUILD) ## Delete the operator; the CustomResourceDefinitions and their objects stay
	$(need_kubeconfig)
	@objects=$$($(KUBECTL) get glassback --namespace glassback-system --output name 2>/dev/null || true); if [ -n "$$objects" ]; then \
		echo "make $@: this deletes the namespace glassback-system: delete its objects first, while the operator runs" >&2; \
		echo "$$objects" >&2; exit 1; \
	fi
	hack/render.sh --without-crds $(KUBECTL) $(MANIFESTS) "$(IMG)" | $(KUBECTL) delete --ignore-not-found -f -
	@if $(KUBECTL) get -f artifacts/crd --output name >/dev/null 2>&1; then \
		echo "The CustomResourceDefinitions and their objects still exist. docs/install.md explains how to delete them."; fi

.PHONY: run
run: build ## Run the operator from source (ARGS="-v=2 --namespace default": more flags)
	$(need_kubeconfig)
	@exec bin/glassback --kubeconfig "$$KUBECONFIG" $(ARGS)

bin/tools/kubectl: devcluster
	@mkdir -p $(@D) && ln -sf ../devcluster $@

##@ Test

.PHONY: test
test: ## Run make verify, then every test; the last line lists the skipped tests
	@mkdir -p bin && rm -f $(SKIPPED)
	@hack/steps.sh test verify unit build devcluster ecssim node integration
	@if [ -s $(SKIPPED) ]; then echo "skipped: $$(sed ':a;N;$$!ba;s/\n/; /g' $(SKIPPED))"; else echo "skipped: nothing"; fi

.PHONY: quick
quick: verify-format build ## Check the format, build, and run the short unit tests (without a cache, it takes some minutes)
	@go test -short ./...

.PHONY: verify
verify: ## Run all checks that run no code: verify-*, vet and lint
	@hack/steps.sh verify verify-format verify-shell verify-modules verify-codegen vet lint

.PHONY: verify-format
verify-format: ## Check that the code is formatted
	@unformatted=$$(gofmt -s -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:" >&2; echo "$$unformatted" >&2; exit 1; fi

.PHONY: verify-shell
verify-shell: ## Check that shell scripts parse
	@for script in $(SHELL_SCRIPTS); do bash -n "$$script"; done

# A module with other versions would compile Kubernetes' packages once more.
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

# golangci-lint analyses the imports of a package too. Two packages link all of Kubernetes, and only name its programs. For them,
# golangci-lint would hold all of Kubernetes in memory. The compiler checks these two.
LINTED = go list -f '{{.Dir}}' ./... | grep -v -e /hack/devcluster$$ -e /hack/devcluster/components$$ | tr '\n' '\0' | xargs -0

# golangci-lint runs every analyzer of go vet (govet in .golangci.yml), but reports nothing about generated code.
.PHONY: vet
vet: ## Run go vet on the packages with generated code; make lint runs its analyzers on all other code
	@go vet ./pkg/apis/... ./pkg/generated/...

.PHONY: translations
translations: ## Show what has changed in the originals of translated documents since the last commit of each translation
	@for t in $$(git ls-files '*.zh.md'); do \
		git --no-pager diff -U0 "$$(git log -1 --format=%H -- "$$t")" -- "$${t%.zh.md}.md"; \
	done

.PHONY: lint
lint: bin/tools/golangci-lint ## Run golangci-lint on every module (.golangci.yml)
	@failed=; for module in $(MODULES); do \
		echo "golangci-lint: $$module"; \
		(cd $$module && $(LINTED) "$(CURDIR)/bin/tools/golangci-lint" run --config "$(CURDIR)/.golangci.yml") || failed=yes; \
	done; [ -z "$$failed" ]

.PHONY: vulnerabilities
vulnerabilities: bin/tools/govulncheck ## Look for known vulnerabilities that the code can reach (needs a network)
	@bin/tools/govulncheck ./...

# The image contains this program, certificates, and no other software.
.PHONY: scan
scan: bin/tools/govulncheck ## Look for known vulnerabilities in the programs of the image in dist (VERSION=v1.2.3; needs a network)
	@rm -rf bin/scan && mkdir -p bin/scan
	@for arch in amd64 arm64; do \
		tar -xzOf "dist/glassback-$(VERSION)-linux-$$arch.tar.gz" glassback >"bin/scan/glassback-$$arch"; \
		bin/tools/govulncheck -mode=binary "bin/scan/glassback-$$arch"; \
	done
	@go run github.com/anchore/grype/cmd/grype@$(GRYPE) --fail-on high dir:bin/scan

GRYPE := v0.121.2

.PHONY: redis
redis: ## Install the redis-server for the tests (as root on Debian or Ubuntu), or report that it is missing
	@hack/redis.sh

.PHONY: shells
shells: ## Install zsh, fish and busybox for the tests (as root on Debian or Ubuntu), or report that one is missing
	@for shell in zsh fish busybox; do command -v $$shell >/dev/null || hack/package.sh $$shell $$shell; done

.PHONY: browser
browser: ## Install Chromium (as root on Debian) and axe-core (with npm) for the tests of the page, or report what is missing
	@hack/browser.sh
	@hack/axe.sh

# TESTED lists only packages with tests: go test would compile the others too, and all of Kubernetes with them. -vet=off: make vet runs go
# vet, and the race detector would need a second run of it. -s -w: without debug information, the linker takes a third less time.
TEST_FLAGS = -vet=off -ldflags='-s -w'
TESTED = $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
TESTS = $(TEST_FLAGS) $(TESTED)

# These tests run without the race detector, after the other tests of this module. The race detector makes them five to ten times slower,
# and finds nothing: one goroutine computes. They validate objects, render charts, run the go command, or call Sync themselves.
# TestMemoryOfAllRequests measures memory, of which the race detector needs several times as much. The lists name whole packages, tests, and
# the packages with these tests.
SEQUENTIAL_PACKAGES := artifacts/crd docs docs/commands hack/mutants hack/tables pkg/apis/alibabacloud/v1alpha1 \
	pkg/apis/app/v1 pkg/apis/batch/v1 pkg/apis/groupa/v1 pkg/apis/redis/v1 pkg/command pkg/completion pkg/options pkg/plan pkg/preview
SEQUENTIAL_TESTS := TestABackupBeginsOnlyOfAWholeCluster TestDecideChangesNothing TestDecideIsSafe TestInvariants \
	TestManyReplicasThatStartAtOnceMakeOneCA TestMemoryOfAllRequests TestNoCallFailsForACertificateWhileCAsRotate \
	TestScenesAreReplayed TestWhatUsersBreakIsRepaired
SEQUENTIAL_TESTS_IN := pkg/controller/application pkg/controller/mycronjob pkg/controller/rediscluster pkg/webhook pkg/webhook/certificate
space := $(subst ,, )
SEQUENTIAL := $(subst $(space),|,$(strip $(SEQUENTIAL_TESTS)))

# A garbage collector that runs less often saves a test some 10 % of its CPU. Tests of memory set the default themselves.
UNIT := GOGC=400 "$(CURDIR)/bin/tools/gotest" $(SKIPPED)

.PHONY: unit
unit: redis shells bin/tools/gotest ## Run the tests that need no cluster; some need a redis-server, zsh, fish or busybox
	$(no_race)
	@CGO_ENABLED=$(RACE_CGO) $(UNIT) $(RACE) -timeout 30m -skip '^($(SEQUENTIAL))$$' $(TEST_FLAGS) \
		./pkg/controller/rediscluster $$(printf '%s\n' $(TESTED) | grep -v $(SEQUENTIAL_PACKAGES:%=-e /%$$))
	@cd hack/tools && CGO_ENABLED=$(RACE_CGO) $(UNIT) $(RACE) -timeout 30m $(TESTS)
	@$(UNIT) -timeout 30m -run '^($(SEQUENTIAL))$$' $(TEST_FLAGS) $(SEQUENTIAL_TESTS_IN:%=./%)
	@$(UNIT) -timeout 30m $(TEST_FLAGS) $(SEQUENTIAL_PACKAGES:%=./%)
	@for module in hack/bench hack/chart hack/release; do \
		(cd $$module && $(UNIT) -timeout 30m $(TESTS)); \
	done
	@$(MAKE) decisions

.PHONY: decisions
decisions: build ## Show which recorded decisions this code changes: that is for the review, and no failure (FILES=FILE|DIR: others)
	@bin/glassback replay $(or $(FILES),pkg/replay/testdata) || [ $$? -eq 2 ]

# One package at a time, because the packages measure times and start clusters.
.PHONY: integration
integration: build devcluster ecssim node browser image bin/tools/gotest bin/tools/helm bin/tools/release ## Run the tests on a real API server (bin/artifacts: logs of failed tests, and pictures)
	@cd hack/devcluster && CGO_ENABLED=$(RACE_CGO) $(BINARIES) "$(CURDIR)/bin/tools/gotest" -artifacts $(ARTIFACTS) $(SKIPPED) \
		$(RACE) -p 1 -count=1 -timeout 65m $(TESTS)
	@cd hack/prometheus && $(BINARIES) "$(CURDIR)/bin/tools/gotest" $(SKIPPED) -count=1 -timeout 10m $(TESTS)

.PHONY: worlds
worlds: ## Run random tests of the controllers, and replay what they record (WORLDS=50000: how many of each; SEED=1: the first one; ONLY=REGEXP)
	@go run ./hack/worlds -worlds $(or $(WORLDS),200) -first $(or $(SEED),0) -only '$(ONLY)'

.PHONY: mutants
mutants: ## Remove each guard of docs/architecture.md from the code: a test must fail (ONLY=REGEXP: matches the guard, the file or the test)
	@go run ./hack/mutants/cmd -only '$(ONLY)'

.PHONY: bench
bench: build devcluster ## Run the benchmarks of the packages, and those on a real API server (BENCH=REGEXP: only matching ones)
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -timeout 60m ./...
	@cd hack/devcluster && $(BINARIES) go test -run '^$$' -bench '$(or $(BENCH),.)' -timeout 60m ./e2e

.PHONY: bench-compare
bench-compare: build devcluster ## Compare the operator with controller-runtime and a plain client (ARGS="-smoke", or "-only burst500 -rounds 2")
	@mkdir -p bin/bench && cd hack/bench && go build -o ../../bin/bench . ./peer ./bare
	@cd hack/bench && ../../bin/bench/bench $(ARGS)

define no_race
@$(if $(RACE),:,echo "the race detector: it needs a C compiler and CGO_ENABLED=1" >> $(SKIPPED))
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

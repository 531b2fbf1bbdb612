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

# Programs are built without a C library, and so run in any image. Tests are built in the same way, so that nothing is compiled twice.
export CGO_ENABLED := 0
# The skipped tests, one on each line.
SKIPPED := "$(CURDIR)/bin/skipped.txt"
# Failed tests keep events, objects and logs here. Tests of the page always keep their pictures.
ARTIFACTS := "$(CURDIR)/bin/artifacts"
# The programs that the tests on a real API server run.
OPERATOR = glassback
BINARIES = DEVCLUSTER_BIN="$(CURDIR)/bin/devcluster" GLASSBACK_BIN="$(CURDIR)/bin/$(OPERATOR)" ECSSIM_BIN="$(CURDIR)/bin/ecssim"

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
		/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo

.PHONY: demo
demo: build devcluster ecssim node bin/demo ## Run a cluster, the operator and an example of each kind, until Ctrl-C (ONCE=1: until all are Ready; EXAMPLES=all)
	@bin/demo $(if $(filter-out 0 no false,$(ONCE)),--once) $(if $(NODE),--node $(NODE)) $(if $(EXAMPLES),--examples $(EXAMPLES))

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

# redis.sh has the packages of Debian 13, which apt-get finds by APT_CONFIG.
.PHONY: servers
servers: node ## Add redis:8 and valkey:8 to the images of the real node (as root on Debian or Ubuntu)
	@for server in redis valkey; do \
		{ hack/redis.sh "$${server}8" && \
			APT_CONFIG="$(CURDIR)/bin/$${server}8/apt.conf" bin/tools/mkimage --store bin/images --add "$$server:8"; } || \
			echo "$$server:8: tests that need this image are skipped; after months, remove bin/$${server}8 and try again" >&2; \
	done

.PHONY: image
image: bin/tools/release ## Make bin/glassback.tar, the operator's image, for docker load and devcluster load (IMG=NAME:TAG: the name)
	@GOOS=linux go build -ldflags "-s -w $(LDFLAGS)" -o bin/linux/glassback .
	@bin/tools/release image --image "$(IMG)" --output bin/glassback.tar bin/linux/glassback

.PHONY: release
release: bin/tools/release ## Make all files of a release in dist (VERSION=v1.2.3; KEY=FILE signs them, UNSIGNED=1 does not; see docs/release.md)
	@rm -rf dist
	@bin/tools/release make --version "$(VERSION)" --commit "$(COMMIT)" --date "$(DATE)" $(if $(BASE_URL),--base-url "$(BASE_URL)") \
		$(RELEASE_IMAGE) $(if $(KEY),--key "$(KEY)") $(if $(filter-out 0 no false,$(UNSIGNED)),--unsigned)

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

.PHONY: generate
generate: ## Generate code and CRDs from pkg/apis, the chart's templates from other manifests, and tables in docs
	hack/update-codegen.sh
	@hack/codegen-sum.sh >hack/codegen.sum
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

# A step that prints ok for a package has run it, or has its result in Go's cache.
.PHONY: test
test: ## Run what decides a change: check, vet, unit, decisions, redis-worlds and smoke; the last line lists the skipped tests
	@mkdir -p bin && rm -f $(SKIPPED)
	@hack/steps.sh test check build ecssim vet unit decisions redis-worlds devcluster smoke
	@if [ -s $(SKIPPED) ]; then echo "skipped: $$(sed ':a;N;$$!ba;s/\n/; /g' $(SKIPPED))"; else echo "skipped: nothing"; fi

# Each of these runs alone, too. The workflow "Nightly" runs each on a machine of its own.
ALL := test lint race redis-all unit-full modules e2e e2e-node arm64 docs install-test page measure

.PHONY: test-all
test-all: ## Run every test there is, for some hours, and print a table of the results
	@mkdir -p bin && hack/steps.sh -k test-all $(ALL)

.PHONY: check
check: ## Check formats, scripts, go.mod files, and that generated code is newer than its sources; it runs no code
	@unformatted=$$(gofmt -s -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:" >&2; echo "$$unformatted" >&2; exit 1; fi
	@for script in $(SHELL_SCRIPTS); do bash -n "$$script"; done
	@go mod tidy -diff || { echo "go.mod is not tidy: run go mod tidy" >&2; exit 1; }
	@awk '{ sub("^require ", "") } \
		$$2 ~ /^v[0-9]/ && $$1 in version && version[$$1] != $$2 { \
			print FILENAME ": " $$1 " " $$2 ", but " file[$$1] " requires " version[$$1] ": run go get " $$1 "@VERSION where it is lower"; bad = 1 } \
		$$2 ~ /^v[0-9]/ { version[$$1] = $$2; file[$$1] = FILENAME } \
		END { exit bad }' $(MODULES:%=%/go.mod) >&2
	@[ "$$(hack/codegen-sum.sh)" = "$$(cat hack/codegen.sum)" ] || { \
		echo "pkg/apis, pkg/generated, artifacts/crd or a generator has changed since the last make generate: run make generate" >&2; exit 1; }

.PHONY: vet
vet: ## Run go vet on the product
	@go vet ./...

# -vet=off: make vet runs go vet. -s -w: without debug information, the linker takes a third less time.
TEST_FLAGS = -vet=off -ldflags='-s -w'

.PHONY: unit
unit: ## Run the tests that need no cluster and no other program
	@go test -short -timeout 30m $(TEST_FLAGS) ./...

.PHONY: decisions
decisions: build ## Show which recorded decisions this code changes: that is for the review, and no failure (FILES=FILE|DIR: others)
	@bin/glassback replay $(or $(FILES),pkg/replay/testdata) || [ $$? -eq 2 ]

# What nothing but a real redis-server shows; hack/mutants/table.go says what some of them find.
REDIS_WORLDS := TestForms TestFormsThoughEveryLifeEndsWithItsSecondWrite TestScales TestUsersThatAreOff \
	TestALibraryDeletedDuringACopyStaysDeleted TestAMasterThatLosesItsFunctionsDuringACopyDeletesNone TestAFailoverEndsLate \
	TestBackupAndRestore TestBackupOfAClusterThatChanges TestEvictedKeysFailARestore
space := $(subst ,, )
GOTEST := "$(CURDIR)/bin/tools/gotest" $(SKIPPED)

.PHONY: redis-worlds
redis-worlds: redis bin/tools/gotest ## Run the few tests with redis-servers that make test needs
	@$(GOTEST) -timeout 60m -p 1 -parallel 2 $(TEST_FLAGS) -run '^($(subst $(space),|,$(strip $(REDIS_WORLDS))))$$' \
		./pkg/controller/rediscluster ./pkg/backup

.PHONY: smoke
smoke: build devcluster ecssim bin/tools/gotest ## Run the operator on one cluster with a simulated node (bin/artifacts: logs, if it fails)
	@cd hack/devcluster && $(E2E) -run '^TestSmoke$$' ./e2e

##@ Test everything

.PHONY: quick
quick: check build ## Check the format, build, and run the short unit tests (without a cache, it takes some minutes)
	@go test -short $(TEST_FLAGS) ./...

# golangci-lint analyses the imports of a package too. Two packages link all of Kubernetes, and only name its programs. For them,
# golangci-lint would hold all of Kubernetes in memory. The compiler checks these two.
LINTED = go list -f '{{.Dir}}' ./... | grep -v -e /hack/devcluster$$ -e /hack/devcluster/components$$ | tr '\n' '\0' | xargs -0

.PHONY: lint
lint: bin/tools/golangci-lint ## Run golangci-lint on every module (.golangci.yml), and check that all go.mod files and generated files are up to date
	@for module in $(MODULES); do \
		(cd $$module && go mod tidy -diff) || { echo "$$module/go.mod is not tidy: run go mod tidy there" >&2; exit 1; }; \
	done
	hack/verify-codegen.sh
	@failed=; for module in $(MODULES); do \
		echo "golangci-lint: $$module"; \
		(cd $$module && $(LINTED) "$(CURDIR)/bin/tools/golangci-lint" run --config "$(CURDIR)/.golangci.yml") || failed=yes; \
	done; [ -z "$$failed" ]

# The race detector needs a C compiler.
.PHONY: race
race: bin/tools/gotest ## Run the short unit tests with the race detector
	@CGO_ENABLED=1 $(GOTEST) -race -short -timeout 60m $(TEST_FLAGS) ./...

.PHONY: redis-all
redis-all: redis shells bin/tools/gotest ## Run all tests with redis-servers
	@$(GOTEST) -timeout 90m -p 1 -parallel 2 $(TEST_FLAGS) ./pkg/controller/rediscluster/... ./pkg/backup/... ./pkg/redisnode/...

.PHONY: unit-full
unit-full: shells bin/tools/gotest ## Run the tests that need no cluster with all seeds, and those of hack/tools
	@$(GOTEST) -timeout 60m $(TEST_FLAGS) $$(go list ./... | grep -v -e /pkg/controller/rediscluster -e /pkg/backup -e /pkg/redisnode)
	@cd hack/tools && $(GOTEST) -timeout 60m $(TESTS)

# TESTED lists only packages with tests: go test would compile the others too, and all of Kubernetes with them.
TESTED = $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
TESTS = $(TEST_FLAGS) $(TESTED)

.PHONY: modules
modules: build ecssim devcluster bin/tools/helm bin/tools/gotest ## Run the tests of the modules below hack: bench, chart, devcluster and prometheus
	@for module in hack/bench hack/chart; do (cd $$module && $(GOTEST) -timeout 60m $(TESTS)); done
	@cd hack/devcluster && $(BINARIES) $(GOTEST) -count=1 -p 1 -timeout 60m $(TEST_FLAGS) $$(printf '%s\n' $(TESTED) | grep -v /e2e$$)
	@cd hack/prometheus && $(GOTEST) -timeout 30m $(TESTS)

# E2E runs tests of ./e2e, which run the programs of BINARIES. The operator of make e2e has the race detector.
E2E = $(BINARIES) "$(CURDIR)/bin/tools/gotest" -artifacts $(ARTIFACTS) $(SKIPPED) -count=1 -timeout 90m $(TEST_FLAGS)
ON_NODE := TestNode|TestEvictionAnswers
IN_DOCS := TestEveryCommandInTheDocuments|TestNodeDocuments
OF_INSTALL := TestInstallation|TestUpgrade|TestDefinitions|TestManifests|TestImages
OF_PAGE := TestPage
MEASURED := TestWebhooksUnderAttack

.PHONY: e2e
e2e: OPERATOR = race/glassback
e2e: devcluster ecssim bin/tools/gotest ## Run the tests on simulated clusters, with an operator that has the race detector
	@CGO_ENABLED=1 go build -race -ldflags "$(LDFLAGS)" -o bin/race/glassback .
	@cd hack/devcluster && $(E2E) \
		-skip '^($(ON_NODE)|$(IN_DOCS)|$(OF_INSTALL)|$(OF_PAGE)|$(MEASURED)|TestSmoke)' ./e2e

# The control planes of other versions, beside the node, kubectl and the clients of this one. A build without a cache takes half an hour each.
VERSIONS := 1.34.4 1.35.4 1.36.3

.PHONY: versions
versions: build devcluster ecssim bin/tools/gotest ## Run the tests on simulated clusters with older versions of Kubernetes (VERSIONS=1.35.4: one of them)
	@for version in $(VERSIONS); do \
		hack/devcluster/build.sh "bin/kubernetes/$$version" "$$version"; \
		echo "Kubernetes $$version"; \
		(cd hack/devcluster && DEVCLUSTER_CONTROL_PLANE="$(CURDIR)/bin/kubernetes/$$version" $(E2E) \
			-run '^(TestSmoke|TestExamples|TestWebhooks|TestControllers|TestFaults|TestLeaderElection|TestStart|TestTheRole|TestDefinitions|TestManifests|TestECS)' \
			-skip '^($(MEASURED))' ./e2e); \
	done

# bin/arm64/glassback is a script that runs the program for arm64 under qemu.
.PHONY: arm64
arm64: OPERATOR = arm64/glassback
arm64: devcluster ecssim bin/tools/gotest ## Run the smoke test with an operator for linux/arm64, which qemu-user runs
	@command -v qemu-aarch64-static >/dev/null || hack/package.sh qemu-aarch64-static qemu-user-static
	@CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -ldflags "$(LDFLAGS)" -o bin/arm64/program .
	@printf '#!/bin/sh\nexec qemu-aarch64-static "$$(dirname "$$0")/program" "$$@"\n' >bin/arm64/glassback && chmod +x bin/arm64/glassback
	@bin/arm64/glassback version
	@cd hack/devcluster && $(E2E) -run '^TestSmoke$$' ./e2e

.PHONY: e2e-node
e2e-node: build devcluster ecssim bin/tools/gotest servers image ## Run the tests on a real node, where there can be one
	@cd hack/devcluster && $(E2E) -run '^($(ON_NODE))' -skip '^($(IN_DOCS))' ./e2e

.PHONY: docs
docs: build devcluster ecssim bin/tools/gotest node image ## Run every command of the documents
	@cd hack/devcluster && $(E2E) -run '^($(IN_DOCS))' ./e2e

.PHONY: install-test
install-test: build devcluster ecssim bin/tools/gotest node image bin/tools/helm bin/tools/release ## Run the tests of releases, installations and upgrades
	@cd hack/release && $(GOTEST) -timeout 60m $(TESTS)
	@cd hack/devcluster && $(E2E) -run '^($(OF_INSTALL))' ./e2e

.PHONY: page
page: build devcluster ecssim bin/tools/gotest browser ## Run the tests of the page in a browser (bin/artifacts: pictures)
	@cd hack/devcluster && $(E2E) -run '^($(OF_PAGE))' ./e2e

.PHONY: measure
measure: build devcluster ecssim bin/tools/gotest ## Attack the operator for eleven minutes: the figures depend on the machine, and fail nothing
	@cd hack/devcluster && GLASSBACK_ATTACK=10m $(E2E) -v -run '^($(MEASURED)|TestOneNamespaceAttacksTheOthers)' ./e2e || true

.PHONY: translations
translations: ## Show what has changed in the originals of translated documents since the last commit of each translation
	@for t in $$(git ls-files '*.zh.md'); do \
		git --no-pager diff -U0 "$$(git log -1 --format=%H -- "$$t")" -- "$${t%.zh.md}.md"; \
	done

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
redis: ## Install the redis-server for the tests (as root on Debian or Ubuntu), or report that it is missing (SERVER=redis8|valkey8: another one)
	@hack/redis.sh $(SERVER)

ifdef SERVER
export PATH := $(CURDIR)/bin/$(SERVER):$(PATH)
endif

.PHONY: shells
shells: ## Install busybox for the tests (as root on Debian or Ubuntu), or report that it is missing
	@command -v busybox >/dev/null || hack/package.sh busybox busybox

.PHONY: browser
browser: ## Install Chromium (as root on Debian) and axe-core (with npm) for the tests of the page, or report what is missing
	@hack/browser.sh
	@hack/axe.sh

.PHONY: worlds
worlds: ## Run random tests of the controllers, and replay what they record (WORLDS=50000: how many of each; SEED=1: the first one; ONLY=REGEXP)
	@go run ./hack/worlds -worlds $(or $(WORLDS),200) -first $(or $(SEED),0) -only '$(ONLY)'

.PHONY: mutants
mutants: redis ## Remove guards of docs/architecture.md from the code, one by one: a test must fail (ONLY=REGEXP: effect, place or test)
	@go run ./hack/mutants/cmd -only '$(ONLY)'

.PHONY: bench
bench: ## Run the benchmarks of the packages (BENCH=REGEXP: only matching ones)
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -timeout 60m ./...

.PHONY: bench-compare
bench-compare: build devcluster ## Compare the operator with controller-runtime and a plain client (ARGS="-smoke", or "-only burst500 -rounds 2")
	@mkdir -p bin/bench && cd hack/bench && go build -o ../../bin/bench . ./peer ./bare
	@cd hack/bench && ../../bin/bench/bench $(ARGS)

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

# cudatrace: `make` builds, `make demo` shows, `make test` checks.

GO ?= go
export CGO_ENABLED = 0
PKGS = ./...

.PHONY: all help build install uninstall release image package-test sim sim-arm64 python-arm64 tools generate generate-tools demo test test-go test-bench test-plain test-gpu test-long bench profile lint deadcode clean

all: build sim

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/cudatrace, one static binary
	$(GO) build -trimpath -buildvcs=false -ldflags "-X main.release=$$(packaging/version.sh 2>/dev/null)" -o bin/cudatrace ./cmd/cudatrace

# Where install puts bin and share; DESTDIR stands in front, for a scratch root.
PREFIX ?= /usr/local
DESTDIR ?=

install: ## install bin/cudatrace (`make build` makes it), manual pages and completion below DESTDIR and PREFIX (/usr/local)
	packaging/tree.sh bin/cudatrace "$(DESTDIR)$(PREFIX)"

uninstall: ## remove what install puts there
	packaging/uninstall.sh "$(DESTDIR)$(PREFIX)"

RELEASE ?= build/release

# release and package-test may name both.
VERSION ?= $(shell packaging/version.sh)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

release: ## make archives, .deb and .rpm packages, Python wheels, lists of modules (SBOM) and checksums in build/release, for amd64 and arm64
	VERSION="$(VERSION)" SOURCE_DATE_EPOCH="$(SOURCE_DATE_EPOCH)" packaging/release.sh "$(RELEASE)"

image: release ## build a container image with cudatrace, by podman, buildah or docker
	GO="$(GO)" packaging/image.sh "$(RELEASE)"

SIM_ARM64 = $(CURDIR)/build/sim-arm64

sim-arm64: generate-tools # what runs in an emulator of the simulated CUDA stack
	$(MAKE) -s -C testdata/sim BUILD=$(SIM_ARM64) CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar \
		$(addprefix $(SIM_ARM64)/,bin/vectoradd bin/launchloop lib/libcupti.so.13)

PYTHON_ARM64 = $(CURDIR)/build/python-arm64

python-arm64: tools # an interpreter that runs in an emulator
	testdata/python-arm64.sh $(PYTHON_ARM64)

package-test: build tools release sim-arm64 python-arm64 ## install, run and remove what release makes; what is for arm64 runs in an emulator (needs root)
	CUDATRACE_RELEASE="$(abspath $(RELEASE))" $(GO) test -count=1 -pgo=off ./packaging
	CUDATRACE_SIM_ARM64="$(SIM_ARM64)" CUDATRACE_PYTHON_ARM64="$(PYTHON_ARM64)" $(GO) test -count=1 -pgo=off -run OfArm64 ./record/internal/cupti
	CUDATRACE_PYTHON_ARM64="$(PYTHON_ARM64)" GOARCH=arm64 CGO_ENABLED=0 $(GO) test -count=1 -pgo=off -exec qemu-aarch64 -run TestFiles ./record/internal/pyframes

sim: ## build the simulated CUDA stack in build/sim
	$(MAKE) -s -C testdata/sim

tools: ## fetch what tests use: the trace processor, DuckDB, a browser, shells, and what makes packages
	testdata/traceprocessor/install.sh
	testdata/sqlengines/install.sh duckdb
	testdata/chromium/install.sh
	packaging/install-tools.sh

generate-tools: # compilers that only `make generate` needs
	@for tool in clang llvm-strip aarch64-linux-gnu-gcc; do command -v $$tool >/dev/null || missing=1; done; \
		test -z "$${missing:-}" || (apt-get update -qq && apt-get install -y -qq clang llvm gcc-aarch64-linux-gnu libc6-dev-arm64-cross)

generate: generate-tools ## rebuild the BPF objects, the injected library, the sampler and the types of the records
	$(GO) generate ./bpf/... ./record/tracelog/...
	$(MAKE) -s -C record/internal/cupti/inject
	$(MAKE) -s -C record/gpumetrics/sampler

demo: build sim ## record a sample program and print the summary
	@testdata/demo.sh

# Packages whose tests take long begin first. More tests run at a time than there are processors: many wait.
LONGEST = ./cmd/... ./record/internal/... ./convert ./convert/stats ./record/tracelog ./record/...

test: build sim tools ## run every test (needs root, for real uprobes)
	@MAKEFLAGS= $(MAKE) -s -j2 test-go test-bench

test-go:
	MAKEFLAGS= $(GO) test -vet=off -ldflags="-s -w" -p $$(($$(nproc) + 2)) -parallel $$(($$(nproc) * 3)) -pgo=off -timeout 30m $(LONGEST) $(PKGS)

test-bench:
	@if command -v python3 >/dev/null; then PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -q -s bench -p '*_test.py'; \
	else echo "no python3 here: the tests of bench are left out"; fi

# Packages with tests that need root, gcc or Node.js. In ./convert only the skipped tests do.
NOT_PLAIN = /(cmd/cudatrace|perfetto|perfetto/tptest|record/internal/cupti|record/internal/cupti/libcupti|record/gpumetrics|record/internal/probe|record/internal/callers|record/internal/elfsym)$$

test-plain: ## the tests that need nothing but Go
	$(GO) test -pgo=off -skip 'Processor|LargeTrace|Chromium|DuckDB' $$($(GO) list $(PKGS) | grep -Ev '$(NOT_PLAIN)')

test-gpu: build ## test every way to end and every kind of program (needs a GPU, nvcc and PyTorch)
	nvcc -o build/exits-gpu testdata/gpu/exits.cu
	python3 testdata/gpu/exits.py bin/cudatrace build/exits-gpu build/gpu
	testdata/gpu/check.sh build/gpu
	testdata/gpu/unwind.sh build/gpu/unwind

test-long: build sim tools release ## slow tests: a second release, container images, a new user's first minute in a Debian with Python alone, 1,000 recordings in a row, 20,000 changed logs, 700 random logs, a trace of 1,000,000 launches, 1,000 attacks of each kind, 100 comparisons of a program with itself, 1,000 simulated builds of each kind, 3,000,000 chains of addresses by chance, 3,000 launches from Python stacks that wander, 200 Python programs that are hard on a reader of frames with each interpreter, 500 programs that run others and end at random, two minutes of a ring at full speed, half an hour of faults beside `watch`, 60 processes that start at the same time and 300 stops of programs whose recorder is killed
	packaging/install-tools.sh buildah:buildah debootstrap:debootstrap
	CUDATRACE_RELEASE="$(abspath $(RELEASE))" CUDATRACE_LONG=1 $(GO) test -count=1 -timeout 30m -run 'TestReproducible|TestContainer|TestNewUser' ./packaging
	CUDATRACE_ATTACKS=1000 $(GO) test -count=1 -timeout 30m -run 'TestAttack' ./record/internal/cupti/privatefolder ./record/outfile
	CUDATRACE_RUNS=1000 $(GO) test -count=1 -timeout 30m -run 'TestManyRuns' ./cmd/cudatrace
	CUDATRACE_RECORDINGS=220 $(GO) test -count=1 -timeout 30m -run 'TestSameProgram' ./cmd/cudatrace
	CUDATRACE_LIVES=500 $(GO) test -count=1 -timeout 60m -v -run 'TestLives' ./cmd/cudatrace
	CUDATRACE_LAST=120 $(GO) test -count=1 -timeout 30m -run 'TestLastLong' ./cmd/cudatrace
	CUDATRACE_SOAK=1600 $(GO) test -count=1 -timeout 60m -v -run 'TestWatchSoak' ./cmd/cudatrace
	ROUNDS=300 $(GO) test -count=1 -timeout 30m -run 'TestLives' ./record/internal/door
	ROUNDS=300 $(GO) test -count=1 -timeout 30m -run 'TestArmedDetachForks' ./cmd/cudatrace
	CUDATRACE_CROWD=60 $(GO) test -count=1 -run 'TestCrowd' ./cmd/cudatrace
	CUDATRACE_MUTANTS=20000 $(GO) test -count=1 -timeout 60m -run 'TestMutants$$' ./convert
	CUDATRACE_LAUNCHES=1000000 $(GO) test -count=1 -timeout 30m -run TestLargeTrace ./convert
	CUDATRACE_LONG=1 $(GO) test -count=1 -timeout 30m -run TestGarbage ./record/internal/callers
	CUDATRACE_LONG=1 $(GO) test -count=1 -timeout 30m -run 'TestChaos|TestEveryReader' ./convert ./convert/stats ./cmd/cudatrace
	HOSTILE_COUNT=100000 CUDATRACE_PYTHON_RUNS=200 $(GO) test -count=1 -timeout 60m -run 'TestPythonHostile' ./cmd/cudatrace
	WANDER=3000 $(GO) test -count=1 -run TestPythonLines/wander ./cmd/cudatrace
	CUDATRACE_BUILDS=1000 $(GO) test -count=1 -timeout 30m -v -run 'TestFalseAlarms|TestPower' ./convert/diff

# The logs that BenchmarkLarge converts; the largest trace takes 5 GB in the temporary folder meanwhile.
BENCH_LAUNCHES ?= 1000000,5000000,20000000

bench: build sim ## run the benchmarks
	CUDATRACE_BENCH_LAUNCHES=$(BENCH_LAUNCHES) $(GO) test -pgo=$(CURDIR)/cmd/cudatrace/default.pgo -run '^$$' -bench . -benchmem -timeout 30m $(PKGS)
	bench/run.sh --sim --turns 5 --budget 60

# The compiler optimizes the code in which conversions spend their time by this profile, which `go build` finds by its
# name. An old profile does no harm: code that has changed since is compiled as without a profile.
profile: ## measure conversions for the compiler: make a new default.pgo
	$(GO) test -pgo=off -trimpath -run '^$$' -bench 'BenchmarkConvert(Called)?$$/^(none|gzip|info)$$|BenchmarkLog$$' -benchtime 8x \
		-cpuprofile cmd/cudatrace/default.pgo -o /dev/null ./convert

lint: deadcode ## check formatting, vet, staticcheck, layers and dead code
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$bad" || { echo "gofmt -w $$bad"; exit 1; }
	$(GO) vet $(PKGS)
	$(GO) tool staticcheck $(PKGS)
	$(GO) test -run TestLayers ./cmd/cudatrace

# Functions that only tests of other packages call: those of folders whose name ends in test, must, and the reading of a
# log's text form.
FOR_TESTS = ^[^:]*test/|^record/must/|^record/tracelog/logtext/

deadcode: ## find functions that the program reaches on no processor, or that only tests reach
	@tool=$$($(GO) tool -n deadcode) && for arch in amd64 arm64; do \
		found=$$(GOARCH=$$arch $$tool $(PKGS)) || exit 1; \
		if echo "$$found" | grep -Ev '^$$|$(FOR_TESTS)'; then echo "dead code on $$arch"; exit 1; fi; done

clean: ## remove everything that was built
	rm -rf bin build demo.pftrace demo.cudatrace

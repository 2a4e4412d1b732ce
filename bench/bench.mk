# SPDX-License-Identifier: Apache-2.0
# Benchmarks; included by the Makefile at the top, which has PYTHON, setup and
# .root.
BENCH_HC := build/bench/hc
BENCH_CC ?= clang-19
BENCH_CFLAGS := -O2 -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wvla -std=gnu11 -D_GNU_SOURCE
BENCH_GO ?= $(firstword $(wildcard /usr/local/go/bin/go) go)
BENCH_HC_PROGRAMS := $(addprefix $(BENCH_HC)/,prober server go-prober go-server)

.PHONY: bench bench-hc lint-bench-hc bench-datapath bench-host bench-tables bench-control \
	bench-hitless bench-members

# Needs root. The default suite, on namespaces of this machine; make bench
# ARGUMENTS="--suite full"
bench: .root bench-traffic
	@tools/setup python datapath
	@exec $(PYTHON) -m bench run $(ARGUMENTS)

.PHONY: .go
.go:
	@command -v $(BENCH_GO) > /dev/null || { \
		echo 'make: Go is missing; BENCH_GO=PATH names it' >&2; exit 1; }

# Needs root and Go. make bench-hc ARGUMENTS="--rounds 3 --only burst_http_28000"
bench-hc: .root .go setup $(BENCH_HC_PROGRAMS)
	@$(MAKE) -s -C datapath
	@cd hc-agent && cargo build --release --locked --quiet
	@exec $(PYTHON) -m bench.hc $(ARGUMENTS)

$(BENCH_HC):
	@mkdir -p $@

$(BENCH_HC)/%: bench/hc/%.c | $(BENCH_HC)
	@$(BENCH_CC) $(BENCH_CFLAGS) $< -o $@

$(BENCH_HC)/go-%: bench/hc/go/%/main.go bench/hc/go/go.mod | $(BENCH_HC)
	@cd bench/hc/go && GOTOOLCHAIN=local $(BENCH_GO) build -o ../../../$@ ./$*

lint-bench-hc:
	@clang-format-19 --style=file:datapath/.clang-format --dry-run -Werror \
		bench/hc/*.c
	@test -z "$$(cd bench/hc/go && $(dir $(BENCH_GO))gofmt -l .)"
	@cd bench/hc/go && GOTOOLCHAIN=local $(BENCH_GO) vet ./...

# Needs root. Markdown on standard output, JSON in build/bench.
# make bench-datapath ARGUMENTS="'1 Ki' 3"
bench-datapath: .root
	@mkdir -p build/bench
	@$(MAKE) -s -C datapath bench \
		BENCH_JSON=$(CURDIR)/build/bench/datapath.json \
		BENCH_ARGUMENTS="$(ARGUMENTS)"

# Needs root. What a member's programs do with a packet, the same way.
bench-members: .root
	@mkdir -p build/bench
	@$(MAKE) -s -C datapath bench-members \
		BENCH_JSON=$(CURDIR)/build/bench/datapath-members.json

# Needs root and Linux 6.6. make bench-host ARGUMENTS="--flows 1 1024"
bench-host: .root setup
	@$(MAKE) -s -C datapath host build/host_floor.bpf.o build/host_loop.bpf.o
	@exec $(PYTHON) -m bench.host $(ARGUMENTS)

# Needs root. make bench-tables ARGUMENTS="--rounds 3"
bench-tables: .root setup
	@$(MAKE) -s -C datapath bench-tables
	@exec $(PYTHON) -m bench.tables $(ARGUMENTS)

# Needs root. make bench-control ARGUMENTS="--only fleet"
bench-control: .root setup
	@exec $(PYTHON) -m bench.control $(ARGUMENTS)

# Needs root and Linux 6.11. make bench-hitless ARGUMENTS="--runs gue"
bench-hitless: .root setup
	@$(MAKE) -s -C datapath all member other-layouts
	@exec $(PYTHON) -m bench.hitless --library \
		$(CURDIR)/datapath/build/liboctavia_xdp.so \
		$(CURDIR)/datapath/build/layout-1001/liboctavia_xdp.so $(ARGUMENTS)

# What sends and counts packets.
BENCH_TRAFFIC_SOURCES := bench/traffic/src
BENCH_TRAFFIC_BUILD := build/bench/traffic
BENCH_TRAFFIC := build/bench/bin/octavia-xdp-traffic
BENCH_TRAFFIC_HEADERS := $(wildcard $(BENCH_TRAFFIC_SOURCES)/*.h)
BENCH_TRAFFIC_OBJECTS := $(patsubst $(BENCH_TRAFFIC_SOURCES)/%.c,\
	$(BENCH_TRAFFIC_BUILD)/%.o,\
	$(filter-out %.bpf.c,$(wildcard $(BENCH_TRAFFIC_SOURCES)/*.c)))
BENCH_BPFTOOL ?= bpftool
BENCH_BPF_CFLAGS := -O2 -g -Wall -Wextra -Werror -ffreestanding -target bpf \
	-mcpu=v3 -isystem /usr/include/$(shell uname -m)-linux-gnu

.PHONY: bench-traffic lint-bench-traffic
.SECONDARY: $(foreach name,send receive,$(BENCH_TRAFFIC_BUILD)/$(name).bpf.o \
	$(BENCH_TRAFFIC_BUILD)/$(name).skel.h)

bench-traffic: $(BENCH_TRAFFIC)

$(BENCH_TRAFFIC_BUILD) $(dir $(BENCH_TRAFFIC)):
	@mkdir -p $@

$(BENCH_TRAFFIC_BUILD)/%.bpf.o: $(BENCH_TRAFFIC_SOURCES)/%.bpf.c \
		$(BENCH_TRAFFIC_HEADERS) | $(BENCH_TRAFFIC_BUILD)
	@$(BENCH_CC) $(BENCH_BPF_CFLAGS) -c $< -o $@

$(BENCH_TRAFFIC_BUILD)/%.skel.h: $(BENCH_TRAFFIC_BUILD)/%.bpf.o
	@$(BENCH_BPFTOOL) gen skeleton $< name $* > $@.new
	@mv $@.new $@

$(BENCH_TRAFFIC_BUILD)/%.o: $(BENCH_TRAFFIC_SOURCES)/%.c \
		$(BENCH_TRAFFIC_HEADERS) $(BENCH_TRAFFIC_BUILD)/send.skel.h \
		$(BENCH_TRAFFIC_BUILD)/receive.skel.h
	@$(BENCH_CC) $(BENCH_CFLAGS) -pthread \
		-I$(BENCH_TRAFFIC_BUILD) -c $< -o $@

$(BENCH_TRAFFIC): $(BENCH_TRAFFIC_OBJECTS) | $(dir $(BENCH_TRAFFIC))
	@$(BENCH_CC) -pthread $^ -lbpf -o $@

lint-bench-traffic: $(BENCH_TRAFFIC)
	@clang-format-19 --style=file:datapath/.clang-format --dry-run -Werror \
		$(BENCH_TRAFFIC_SOURCES)/*.[ch]

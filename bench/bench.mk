# SPDX-License-Identifier: Apache-2.0
# Benchmarks; included by the Makefile at the top, which has PYTHON, setup and
# .root.
BENCH_HC := build/bench/hc
BENCH_CC ?= clang-19
BENCH_CFLAGS := -O2 -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wvla -std=gnu11 -D_GNU_SOURCE
BENCH_GO ?= $(firstword $(wildcard /usr/local/go/bin/go) go)
BENCH_HC_PROGRAMS := $(addprefix $(BENCH_HC)/,prober server go-prober go-server)

# A part of the product by itself: the suite of this name.
BENCH_PART = @exec $(PYTHON) -m bench run --suite $(@:bench-%=%) $(ARGUMENTS)

.PHONY: bench bench-hc lint-bench-hc bench-datapath bench-host bench-tables bench-control \
	bench-hitless bench-members bench-hc-programs

# Needs root. Runs the default suite on namespaces of this machine; another one
# by make bench ARGUMENTS="--suite full"
bench: .root
	@tools/setup python datapath
	@exec $(PYTHON) -m bench run $(ARGUMENTS)

# Need root: make bench-tables ARGUMENTS="--rounds 3"
bench-datapath bench-members bench-host bench-tables: .root setup
	$(BENCH_PART)

bench-hc bench-control bench-hitless: .root setup
	$(BENCH_PART)

.PHONY: .go
.go:
	@command -v $(BENCH_GO) > /dev/null || { \
		echo 'make: Go is missing; BENCH_GO=PATH names it' >&2; exit 1; }

# The programs that "bench-hc" compares and measures with; needs Go.
bench-hc-programs: .go $(BENCH_HC_PROGRAMS)
	@cd hc-agent && cargo build --release --locked --quiet

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

# The program that sends and counts packets.
BENCH_TRAFFIC_SOURCES := bench/traffic/src
BENCH_TRAFFIC_BUILD := build/bench/traffic
BENCH_TRAFFIC := build/bench/bin/octavia-xdp-traffic
BENCH_TRAFFIC_HEADERS := $(wildcard $(BENCH_TRAFFIC_SOURCES)/*.h)
BENCH_TRAFFIC_OBJECTS := $(patsubst $(BENCH_TRAFFIC_SOURCES)/%.c,\
	$(BENCH_TRAFFIC_BUILD)/%.o,\
	$(filter-out %.bpf.c,$(wildcard $(BENCH_TRAFFIC_SOURCES)/*.c))) \
	$(BENCH_TRAFFIC_BUILD)/load.o $(BENCH_TRAFFIC_BUILD)/capabilities.o
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
	@$(BENCH_CC) $(BENCH_CFLAGS) -pthread -Idatapath \
		-I$(BENCH_TRAFFIC_BUILD) -c $< -o $@

# Messages of libbpf, as the datapath's library keeps them.
$(BENCH_TRAFFIC_BUILD)/%.o: datapath/load/%.c $(wildcard datapath/load/*.h) \
		| $(BENCH_TRAFFIC_BUILD)
	@$(BENCH_CC) $(BENCH_CFLAGS) -Idatapath -c $< -o $@

$(BENCH_TRAFFIC): $(BENCH_TRAFFIC_OBJECTS) | $(dir $(BENCH_TRAFFIC))
	@$(BENCH_CC) -pthread $^ -lbpf -o $@

lint-bench-traffic: $(BENCH_TRAFFIC)
	@clang-format-19 --style=file:datapath/.clang-format --dry-run -Werror \
		$(BENCH_TRAFFIC_SOURCES)/*.[ch]

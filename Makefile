# SPDX-License-Identifier: Apache-2.0
# What people type; what a target does is in tools/, lab/ and bench/.
#
#   make demo          a tenant's load balancer, from the CLI to packets
#   make demo KEEP=1   the same, and leave it up
#   make demo MEMBERS=vms  with unmodified VMs of two tenants, on hypervisors
#   make demo L7=1     with proxy nodes: HTTP, L7 policies, cookies
#   make demo HORIZON=1    the first, and then in Horizon, with a real browser
#   make demo-down     end a demonstration that was left up
#   make test          linters and tests, before a change is pushed
#   make test-all      also all long kinds of tests, most of a day
#   make lint | unit | functional | kernel | e2e     one kind of make test
#   make kernels       the datapath on all kernels, one of the long kinds
#   make tempest       Octavia's own tests of its API, most of an hour
#   make packages      Debian packages, installed and purged in a clean root
#   make roles         Ansible's roles, and an upgrade, on hosts of a lab
#   make fault-matrix  processes of a lab killed, paused, cut off: a table
# "tools/test --changed" runs what a change reaches; "tools/test --help" names
# all kinds.
#
#   make setup         install and build what the others need, as they do
#   make docs          the documentation, in build/doc
#   make clean         remove everything that was built or downloaded
#
# Benchmarks (bench/bench.mk), as root:
#   make bench         packets and requests, beside HAProxy, nginx and the kernel
#   make bench-hc      the health checker against C and Go
#   make bench-datapath  nanoseconds per packet, by case
#   make bench-members   the same of a member's programs
#   make bench-host    nanoseconds per packet on a hypervisor
#   make bench-tables  from a health result to the switched table
#   make bench-control  the control plane, with a whole Octavia
#   make bench-hitless  connections while members and LB nodes change
#   make bench-traffic | bench-hc-programs  build what they measure with
#   make lint-bench-hc | lint-bench-traffic     linters, as tools/lint runs them

PYTHON := build/venv/bin/python

.PHONY: demo demo-down test test-all tempest fault-matrix packages roles setup lint unit functional kernel kernels e2e docs clean

# Before what takes minutes and would be of no use.
.PHONY: .root
.root:
	@test "$$(id -u)" = 0 || { echo 'make: this needs root' >&2; exit 1; }

ifdef HORIZON
demo: .root setup
	@tools/setup horizon
	@$(PYTHON) -m lab.demo --keep-lab
	@exec $(PYTHON) -m lab.horizon --name demo --existing $(if $(KEEP),--keep)
else
demo: .root setup
	@exec $(PYTHON) -m lab.demo $(if $(KEEP),--keep) $(if $(MEMBERS),--members $(MEMBERS)) $(if $(L7),--l7)
endif

demo-down: .root
	@test -x $(PYTHON) || { \
		echo 'make: $(PYTHON) is missing; "make setup" makes it' >&2; exit 1; }
	@exec $(PYTHON) -m lab down --name demo

test:
	@exec tools/test

test-all:
	@exec tools/test --all

lint unit functional kernel kernels e2e:
	@exec tools/test $@

tempest: .root
	@exec tools/test-octavia-api

# ARGUMENTS='--process agent --fault kill' selects cases.
fault-matrix: setup
	@exec $(PYTHON) -m octavia_xdp_provider.tests.faults $(ARGUMENTS)

packages: .root setup
	@tools/setup packaging
	@exec $(PYTHON) -m lab.packages

roles: .root setup
	@tools/setup packaging
	@exec $(PYTHON) -m lab.roles

setup:
	@tools/setup

docs: setup
	@exec $(PYTHON) -m sphinx -W -q -b html doc/source build/doc

clean:
	@rm -rf build hc-agent/target
	@$(MAKE) -s -C datapath clean

include bench/bench.mk

# SPDX-License-Identifier: Apache-2.0
#
#   make demo          a tenant's load balancer, from the CLI to packets
#   make demo KEEP=1   the same, and leave it up; make demo-down ends it
#   make demo MEMBERS=vms  with unmodified VMs of two tenants, on hypervisors
#   make demo HORIZON=1    and then in Horizon, with a real browser
#   make test          everything that CI runs
#   make test-all      the same, with what is long and repeats itself
#   make bench         packets and requests, beside HAProxy, nginx and the kernel
#   make bench-hc      the health checker against C and Go
#   make bench-datapath  nanoseconds per packet, by case (as root)
#   make bench-tables  from a health result to the switched table (as root)
#   make bench-control  the control plane, with a whole Octavia (as root)
#   make bench-host    nanoseconds per packet on a hypervisor (as root)
#   make bench-hitless  connections while members and LB nodes change (as root)
#   make tempest      Octavia's own tests of its API, most of an hour
#   make packages     Debian packages, installed and purged in a clean root
#   make roles        Ansible's roles, and an upgrade, on hosts of a lab
#   make fault-matrix  processes of a lab killed, paused, cut off: a table
#   make lint | unit | functional | kernels | e2e     one part of it

PYTHON := build/venv/bin/python

.PHONY: demo demo-down test test-all tempest fault-matrix packages roles setup lint unit functional kernels e2e docs clean

ifdef HORIZON
demo: setup
	@tools/setup horizon
	@$(PYTHON) -m lab.demo --keep-lab
	@exec $(PYTHON) -m lab.horizon --name demo --existing $(if $(KEEP),--keep)
else
demo: setup
	@exec $(PYTHON) -m lab.demo $(if $(KEEP),--keep) $(if $(MEMBERS),--members $(MEMBERS))
endif

demo-down:
	@exec $(PYTHON) -m lab down --name demo

test:
	@exec tools/test

test-all:
	@exec tools/test --all

lint unit functional kernels e2e:
	@exec tools/test $@

tempest:
	@exec tools/test-octavia-api

# ARGUMENTS='--process agent --fault kill' selects cases.
fault-matrix: setup
	@exec $(PYTHON) -m octavia_xdp_provider.tests.faults $(ARGUMENTS)

packages: setup
	@tools/setup packaging
	@exec $(PYTHON) -m lab.packages

roles: setup
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

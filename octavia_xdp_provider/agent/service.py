# SPDX-License-Identifier: Apache-2.0
"""The node agent: one thread that talks and one that does.

The *link* fetches what the node should have and reports what it has; the
*worker* makes it true and looks after announcements. A controller that does
not answer thus never delays the withdrawal of a VIP. Uplinks have a thread
of their own, see uplinks/monitor.py.

A node whose run directory cannot be written cannot withdraw a VIP, and its
health checker cannot pass on results. It says so with every load balancer,
and reports no member as up or down, so that nobody waits for it or believes
it.
"""

import json
import threading

from oslo_log import log as logging
import oslo_messaging
import pbr.version

from octavia_xdp_provider.agent import checker_status
from octavia_xdp_provider.agent import probes
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.agent.uplinks import path_mtu
from octavia_xdp_provider.common import atomic_file
from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.node import wakeup

LOG = logging.getLogger(__name__)

# Between two looks at tables and announcements without a notification.
TICK_S = 1.0
# Between two whole passes without a change from the controller: they repair
# what somebody else has changed on the node.
FULL_PASS_S = 10.0
# After a failure of the link.
RETRY_S = 1.0
# For the worker to make true what was fetched, before it is reported.
WORKER_TIMEOUT_S = 10.0


class WakeupEndpoint:
    """RPC endpoint by which the controller wakes this node up."""

    target = oslo_messaging.Target(namespace=rpc.WAKEUP_NAMESPACE,
                                   version=rpc.VERSION)

    def __init__(self, notified):
        self._notified = notified

    def changed(self, context):
        self._notified()


class Agent:
    """Wires the parts together; ``run`` until ``stop``."""

    def __init__(self, conf):
        self._conf = conf
        self._files = run_directory.RunDirectory(conf)
        self._files.make()
        self._datapath = self._files.open_datapath(create=True)
        self._announce = announcements.Announcements(
            conf.agent.run_directory,
            option_values.networks(conf, 'vip', 'allowed_networks'))
        self._kernel = netlink.Kernel()  # the worker's
        self._probes = probes.Probes(
            self._datapath, self._kernel, conf.agent.uplinks,
            conf.agent.probe_through_datapath)
        self._reconciler = reconcile.Reconciler(
            conf, self._files, self._datapath, self._announce,
            self._allowed_addresses,
            path_mtu.PathMtu(self._kernel, conf.datapath.member_mtu),
            self._probes)
        self._stop = threading.Event()
        self._work = threading.Event()
        self._uplinks = monitor.UplinkMonitor(
            conf, self._datapath, self._work.set)
        self._talk = threading.Event()
        self._done = threading.Condition()
        self._wanted = self._load_wanted()
        self._result = None
        self._reported_members = None
        self._complained = False
        self._cache_error = None
        self._directory_error = None
        self._stale = False
        transport = rpc.transport(conf)
        self._controller = rpc.NodesClient(transport)
        self._server = rpc.server(transport, rpc.NODE_TOPIC, conf.host,
                                  [WakeupEndpoint(self._talk.set)])

    def stop(self):
        """Ask ``run`` to return. Forwarding goes on without us."""
        self._stop.set()
        self._work.set()
        self._talk.set()

    def run(self):
        """Serve until ``stop`` is called, or another library took over.

        :returns: exit status: not 0 in the second case.
        """
        self._uplinks.start()
        wakeup.listen(self._files.agent_wakeup, self._work.set)
        worker = threading.Thread(target=self._worker, name='worker')
        worker.start()
        self._server.start()
        LOG.info('Agent %s serves.', self._conf.host)
        self._link()
        self._server.stop()
        self._server.wait()
        worker.join()
        self._uplinks.stop()
        LOG.info('Agent %s has stopped; the kernel goes on forwarding.',
                 self._conf.host)
        return int(self._stale)

    def _allowed_addresses(self):
        return options.allowed_addresses(self._conf,
                                         self._kernel.own_addresses())

    # What the controller sent last. A cache: after a restart without a
    # controller the node goes on looking after what it has.

    def _load_wanted(self):
        try:
            with open(self._files.wanted, encoding='utf-8') as file:
                cached = json.load(file)
            return reconcile.Wanted(cached['as_of'], {
                key: tuple(value)
                for key, value in cached['load_balancers'].items()})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            LOG.error('%s cannot be used (%s); waiting for the controller.',
                      self._files.wanted, error)
            return None

    def _save_wanted(self, wanted):
        """Write the cache. What was fetched is applied without it, too."""
        try:
            atomic_file.replace(self._files.wanted, json.dumps(
                {'as_of': wanted.as_of,
                 'load_balancers': wanted.load_balancers}).encode(),
                mode=0o600)
        except OSError as error:
            if self._cache_error is None:
                LOG.error('The cache %s cannot be written (%s). After a '
                          'restart without a controller this node would '
                          'go back to what it holds.', self._files.wanted,
                          error.strerror or error)
            self._cache_error = error
        else:
            if self._cache_error is not None:
                LOG.info('The cache %s can be written again.',
                         self._files.wanted)
            self._cache_error = None

    # The worker

    def _worker(self):
        done = None  # the load balancers of the last whole pass
        ticks = 0
        while not self._stop.is_set():
            self._work.clear()
            ticks += 1
            try:
                self._datapath.info()
                wanted = self._wanted
                ready = self._uplinks.ready
                self._probes.attach()
                if wanted is None:
                    self._reconciler.announce(frozenset())
                elif (wanted.load_balancers is not done
                      or ticks >= FULL_PASS_S / TICK_S):
                    result = self._reconciler.reconcile(wanted, ready)
                    done, ticks = wanted.load_balancers, 0
                    with self._done:
                        self._result = result
                        self._done.notify_all()
                else:
                    self._reconciler.announce(ready)
                self._report_changes()
            except Exception as error:
                if datapath.is_stale(error):
                    LOG.warning('%s. The agent ends, to be started again.',
                                error.text)
                    self._stale = True
                    self.stop()
                    return
                LOG.exception('A pass failed and is tried again.')
            self._work.wait(TICK_S)

    def _report_changes(self):
        """Let the link report at once when a member changed."""
        if self._result is None:
            return
        members = self._reconciler.members(self._result)
        if members != self._reported_members:
            self._reported_members = members
            self._talk.set()

    # The link

    def _link(self):
        silent = False
        while not self._stop.is_set():
            self._talk.clear()
            try:
                self._fetch()
                self._report()
                if silent:
                    LOG.info('The controller answers again.')
                silent = False
            except datapath.DatapathError as error:
                # An OSError as well, but none of the transport's.
                LOG.error('The tables cannot be read for the report: %s.',
                          error.text)
                self._stop.wait(RETRY_S)
            except rpc.TRANSPORT_ERRORS as error:
                if not silent:
                    LOG.warning('The controller does not answer (%s: %s); '
                                'going on with what it sent last.',
                                type(error).__name__, error)
                silent = True
                self._stop.wait(RETRY_S)
            except Exception:
                LOG.exception('Talking to the controller failed.')
                self._stop.wait(RETRY_S)
            self._talk.wait(self._conf.agent.report_interval)

    def _fetch(self):
        known = self._wanted.load_balancers if self._wanted else {}
        answer = self._controller.fetch(
            self._conf.host,
            {key: generation for key, (generation, _) in known.items()})
        load_balancers = {}
        for key, generation in answer['generations'].items():
            if key in answer['documents']:
                load_balancers[key] = (generation, answer['documents'][key])
            else:
                load_balancers[key] = known[key]
        as_of = answer['as_of']
        if self._wanted is not None and as_of < self._wanted.as_of:
            # An empty or older database: it may add and change, but what
            # it does not know is not taken as removed.
            self._complain_of_older_database(as_of)
            load_balancers = {**known, **load_balancers}
            as_of = self._wanted.as_of
        if self._wanted and load_balancers == known:
            # The same dictionary shows that nothing is to be done.
            self._wanted = reconcile.Wanted(as_of, known)
            if self._cache_error is not None:
                self._save_wanted(self._wanted)
            return
        wanted = reconcile.Wanted(as_of, load_balancers)
        self._save_wanted(wanted)
        self._wanted = wanted
        self._work.set()
        with self._done:
            self._done.wait_for(
                lambda: self._stop.is_set() or self._made_true(wanted),
                timeout=WORKER_TIMEOUT_S)

    def _complain_of_older_database(self, as_of):
        if not self._complained:
            LOG.error(
                'The controller\'s database is older (%s) than what it sent '
                'before (%s). Nothing is removed from this node until it has '
                'caught up; to accept it as it is, stop the agent, delete '
                '%s and start it.', as_of, self._wanted.as_of,
                self._files.wanted)
        self._complained = True

    def _made_true(self, wanted):
        return (self._result is not None and wanted is not None
                and self._result.wanted.load_balancers
                is wanted.load_balancers)

    def _report(self):
        result, wanted = self._result, self._wanted
        if result is None:
            result = reconcile.PassResult(reconcile.Wanted(0, {}), {}, {})
        # What was made true for an earlier fetch is true for a later one
        # that asked for the same.
        as_of = (wanted if self._made_true(wanted)
                 else result.wanted).as_of
        problems = self._problems()
        synced, members = result.synced, self._reconciler.members(result)
        if problems:
            synced = {key: {**one, 'error': one['error'] or problems[0]}
                      for key, one in synced.items()}
            members = {key: dict.fromkeys(states, 'unknown')
                       for key, states in members.items()}
        self._controller.report(self._conf.host, {
            'as_of': as_of,
            'synced': synced,
            'members': members,
            'counters': self._reconciler.counters(result),
            'state': {**self._state(), 'problems': problems}})

    def _problems(self):
        """Why this node does not do what is wanted: texts, mostly none."""
        problems = sorted(self._reconciler.file_errors.values())
        error = None
        try:
            self._files.check_writable()
        except OSError as caught:
            error = (f'{self._files.directory} cannot be written: '
                     f'{caught.strerror or caught}')
            problems.append(error)
        if error != self._directory_error:
            if error:
                LOG.error('%s. This node reports that it cannot do what is '
                          'wanted.', error)
            else:
                LOG.info('%s can be written again.', self._files.directory)
        self._directory_error = error
        return problems

    def _state(self):
        """What the node reports of itself, for the operator."""
        status = self._announce.status()
        info = self._datapath.info()
        return {
            'version': pbr.version.VersionInfo(
                'octavia-xdp-provider').release_string(),
            **self._uplinks.report(),
            **self._probes.report(),
            'health_checker': checker_status.read(self._files.checker_socket),
            'services': info.services,
            'services_max': info.services_max,
            'announced': sorted(map(str, status.announced)) if status else [],
            'bgp_neighbours': status.neighbours if status else {},
            'outcomes': {
                outcome.name.lower(): counters._asdict()
                for outcome, counters in self._datapath.outcomes().items()
                if counters.packets},
        }

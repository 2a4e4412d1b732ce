# SPDX-License-Identifier: Apache-2.0
"""A network that loses, repeats and delays messages."""

import contextlib
import json

import oslo_messaging


class Lost(oslo_messaging.MessagingTimeout):
    """No answer arrived."""


class Network:
    """Passes most calls on to one of the endpoints.

    :param source: random.Random; may be replaced at any time.
    :param endpoints: called, gives the objects that could answer now.
    """

    def __init__(self, source, endpoints):
        self.source = source
        self._endpoints = endpoints
        self._late = []
        self.faults = True

    def __getattr__(self, name):
        def call(*arguments):
            # Copies the arguments, as a broker does.
            text = json.dumps(arguments)
            if not self.faults:
                return self._deliver(name, text)
            event = self.source.random()
            if event < 0.15:
                raise Lost
            if event < 0.3:
                self._late.append((name, text))
                raise Lost
            answer = self._deliver(name, text)
            if event < 0.45:
                raise Lost
            if event < 0.55:
                self._deliver(name, text)
            self.deliver_late()
            return answer
        return call

    def deliver_late(self, share=0.4):
        """Deliver messages whose callers have timed out."""
        self.source.shuffle(self._late)
        while self._late and self.source.random() < share:
            with contextlib.suppress(Lost):
                self._deliver(*self._late.pop())

    def _deliver(self, name, text):
        endpoints = self._endpoints()
        if not endpoints:
            raise Lost
        endpoint = self.source.choice(endpoints)
        answer = getattr(endpoint, name)({}, *json.loads(text))
        return json.loads(json.dumps(answer))

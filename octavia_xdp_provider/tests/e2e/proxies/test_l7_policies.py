# SPDX-License-Identifier: Apache-2.0
"""L7 policies, as clients see them."""

from lab.fabric import members
from octavia_xdp_provider.tests.e2e.support import proxied

OTHER = 'member3'


class TestPolicies(proxied.SharedCase):

    def add_policy(self, path, **fields):
        """A policy for a path and what is below it, until the test is over.
        """
        # The SDK knows no redirect_http_code.
        answer = self.sdk.post('/lbaas/l7policies', json={'l7policy': {
            'listener_id': self.listener.id, **fields}})
        self.assertEqual(201, answer.status_code, answer.text)
        policy_id = answer.json()['l7policy']['id']
        self.addCleanup(self.remove_policy, policy_id)
        self.wait_active(self.balancer)
        self.sdk.create_l7_rule(policy_id, type='PATH',
                                compare_type='STARTS_WITH', value=path)
        self.wait_active(self.balancer)
        return policy_id

    def remove_policy(self, policy_id):
        self.sdk.delete_l7_policy(policy_id)
        self.wait_active(self.balancer)

    def wait_answer(self, path, status):
        """Wait until requests for a path have this status; others go on."""
        self.wait(f'{status} for {path}', lambda: self.ask(
            self.balancer, path).status == status)
        self.check_requests(self.balancer)
        answer = self.ask(self.balancer, path)
        self.assertEqual(status, answer.status)
        return answer

    def test_reject(self):
        policy_id = self.add_policy('/private', action='REJECT')
        self.wait_answer('/private/x', 403)
        self.sdk.update_l7_policy(policy_id, admin_state_up=False)
        self.wait_active(self.balancer)
        # No member has such a file.
        self.wait_answer('/private/x', 404)

    def test_redirect_to_url(self):
        url = 'https://www.example.com/new?a=1&b=%202'
        self.add_policy('/old', action='REDIRECT_TO_URL', redirect_url=url,
                        redirect_http_code=301)
        self.assertEqual(
            url, self.wait_answer('/old', 301).headers['location'])

    def test_redirect_prefix(self):
        self.add_policy('/moved', action='REDIRECT_PREFIX',
                        redirect_prefix='https://www.example.com')
        self.assertEqual(
            'https://www.example.com/moved/a?b=c',
            self.wait_answer('/moved/a?b=c', 302).headers['location'])

    def test_redirect_to_pool(self):
        pool = self.sdk.create_pool(
            loadbalancer_id=self.balancer.id, name=self.unique('api'),
            protocol='HTTP', lb_algorithm='ROUND_ROBIN')
        self.addCleanup(self.remove_pool, pool)
        self.wait_active(self.balancer)
        self.sdk.create_member(pool, address=members.address(OTHER),
                               protocol_port=80)
        self.wait_active(self.balancer)
        self.add_policy('/api', action='REDIRECT_TO_POOL',
                        redirect_pool_id=pool.id)
        self.wait('the other pool', lambda: self.ask(
            self.balancer, '/api/x').body == f'{OTHER}\n')
        self.check_requests(self.balancer)

    def remove_pool(self, pool):
        self.sdk.delete_pool(pool.id)
        self.wait_active(self.balancer)

    def test_rejection_comes_before_redirection_whatever_the_position(self):
        """As Octavia documents it."""
        self.add_policy('/both', action='REDIRECT_TO_URL', position=1,
                        redirect_url='https://www.example.com/')
        self.wait_answer('/both', 302)
        self.add_policy('/both', action='REJECT', position=2)
        self.wait_answer('/both', 403)

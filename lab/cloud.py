# SPDX-License-Identifier: Apache-2.0
"""Initial content of the cloud, and access to its APIs."""

import json
import shlex

import openstack as sdk

from lab import paths
from lab import processes
from lab.control import keystone
from lab.control import neutron
from lab.control import octavia
from lab.control import secret

# Of one request: a server that hangs must not block a test forever.
TIMEOUT_S = 120

ADMIN = 'admin'
TENANT = 'demo'
TENANT_ROLES = 'member', 'load-balancer_member'
ENDPOINTS = {
    # type → (name, URL)
    'network': ('neutron', neutron.URL),
    'load-balancer': ('octavia', octavia.URL),
}
NETWORKS = {
    # name → (CIDR, gateway or None); the subnet is <name>-v4.
    'vips': (str(paths.VIP_NETWORK), None),
    'members': (str(paths.MEMBER_NETWORK), paths.MEMBER_GATEWAY),
}
NETWORKS_V6 = {
    # The same networks; the subnet is <name>-v6.
    'vips': (str(paths.VIP_NETWORK_V6), None),
    'members': (str(paths.MEMBER_NETWORK_V6), paths.MEMBER_GATEWAY_V6),
}


def content():
    """Return everything that set_up() writes to the cloud's databases."""
    return keystone.URL, ENDPOINTS, NETWORKS, NETWORKS_V6


def environment(lab, user=TENANT):
    """Return the OS_* variables of a user and the project of its name."""
    return {
        'OS_AUTH_TYPE': 'password',
        'OS_AUTH_URL': keystone.URL,
        'OS_IDENTITY_API_VERSION': '3',
        'OS_REGION_NAME': keystone.REGION,
        'OS_USERNAME': user,
        'OS_PASSWORD': secret.password(lab, user),
        'OS_USER_DOMAIN_NAME': 'Default',
        'OS_PROJECT_NAME': user,
        'OS_PROJECT_DOMAIN_NAME': 'Default',
    }


_ACTIVATE = """\
# Source this: the lab's commands, from a shell outside its namespaces.
#   openstack …     the CLI as tenant {tenant}
#   on HOST …       any command on a host: control, router, lb1, member1, …
openstack() {{
    ( . {openrc}; nsenter --net=/run/netns/{control} -- {cli} "$@" )
}}
on() {{
    local host=$1
    shift
    nsenter --net="/run/netns/{prefix}$host" -- "$@"
}}
"""


def activate_file(lab):
    """Return the path of the file to source for the CLI."""
    return lab.directory / 'activate'


def write_openrc(lab):
    """Write openrc (the tenant) and openrc-admin below the lab's directory.

    They work inside the control host's namespace only; ``activate`` is for
    shells outside.
    """
    activate_file(lab).write_text(_ACTIVATE.format(
        tenant=TENANT, openrc=shlex.quote(str(lab.directory / 'openrc')),
        control=lab.namespace(paths.CONTROL), prefix=lab.prefix,
        cli=shlex.quote(str(paths.VENV / 'bin' / 'openstack'))))
    for name, user in (('openrc', TENANT), ('openrc-admin', ADMIN)):
        path = lab.directory / name
        path.touch(mode=0o600)
        path.write_text(''.join(
            f'export {key}={shlex.quote(value)}\n'
            for key, value in environment(lab, user).items()))


def connect(lab, user=TENANT):
    """Return an openstacksdk connection.

    Use it within lab.namespaces.inside(lab, lab.paths.CONTROL).
    """
    return sdk.connect(
        load_yaml_config=False, load_envvars=False, api_timeout=TIMEOUT_S,
        region_name=keystone.REGION, auth_type='password', auth={
            'auth_url': keystone.URL,
            'username': user,
            'password': secret.password(lab, user),
            'user_domain_name': 'Default',
            'project_name': user,
            'project_domain_name': 'Default',
        })


def openstack(lab, *arguments, user=TENANT, timeout=120):
    """Run the `openstack` command on the control host.

    Return its parsed JSON; None if it prints none.
    """
    has_output = arguments[-1] == 'list' or set(arguments) & {
        'list', 'show', 'create'}
    output = processes.run(
        lab, paths.CONTROL,
        ['openstack', *arguments, *(('-f', 'json') if has_output else ())],
        env=environment(lab, user), timeout=timeout).stdout
    return json.loads(output) if output.strip() else None


def set_up(lab):
    """Create services, users, roles and networks in an empty cloud."""
    identity = connect(lab, ADMIN).identity
    _create_services(lab, identity)
    _create_users(lab, identity)
    # Connect again: a connection keeps its first service catalogue.
    admin = connect(lab, ADMIN)
    for name, (cidr, gateway) in NETWORKS.items():
        network = admin.network.create_network(name=name, is_shared=True)
        admin.network.create_subnet(
            name=f'{name}-v4', network_id=network.id, ip_version=4,
            cidr=cidr, gateway_ip=gateway, is_dhcp_enabled=False)
        cidr, gateway = NETWORKS_V6[name]
        admin.network.create_subnet(
            name=f'{name}-v6', network_id=network.id, ip_version=6,
            cidr=cidr, gateway_ip=gateway, is_dhcp_enabled=False)


def create_tenant(lab, identity, name):
    """Create a project and a user of this name, with the roles of a tenant.

    :param identity: the administrator's connection to Keystone.
    """
    secret.make(lab, name)
    project = identity.create_project(name=name, domain_id='default')
    user = _create_user(lab, identity, name, project)
    _grant(identity, user, project, *TENANT_ROLES)
    return project, user


def add_service(lab, name, kind, url):
    """Create another service and its user in a cloud.

    Use it within lab.namespaces.inside(lab, lab.paths.CONTROL).
    """
    identity = connect(lab, ADMIN).identity
    _create_endpoints(identity, name, kind, url)
    _create_service_user(lab, identity, name,
                         identity.find_project('service'))


def _create_services(lab, identity):
    for kind, (name, url) in ENDPOINTS.items():
        _create_endpoints(identity, name, kind, url)
    project = identity.create_project(name='service', domain_id='default')
    for name in ('neutron', 'octavia'):
        _create_service_user(lab, identity, name, project)
    # The provider's controller may only read all load balancers.
    identity.create_role(name=keystone.OBSERVER_ROLE)
    _grant(identity, _create_user(lab, identity, keystone.OBSERVER, project),
           project, keystone.OBSERVER_ROLE)


def _create_endpoints(identity, name, kind, url):
    service = identity.create_service(type=kind, name=name)
    for interface in ('public', 'internal'):
        identity.create_endpoint(
            service_id=service.id, interface=interface, url=url,
            region_id=keystone.REGION)


def _create_service_user(lab, identity, name, project):
    user = _create_user(lab, identity, name, project)
    _grant(identity, user, project, 'admin', 'service')


def _create_users(lab, identity):
    for suffix in ('admin', 'member', 'observer'):
        identity.create_role(name=f'load-balancer_{suffix}')
    create_tenant(lab, identity, TENANT)
    _grant(identity, identity.find_user(ADMIN),
           identity.find_project(ADMIN), 'load-balancer_admin')


def _create_user(lab, identity, name, project):
    return identity.create_user(
        name=name, password=secret.password(lab, name),
        domain_id='default', default_project_id=project.id)


def _grant(identity, user, project, *roles):
    for role in roles:
        identity.assign_project_role_to_user(
            project, user, identity.find_role(role))

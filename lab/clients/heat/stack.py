# SPDX-License-Identifier: Apache-2.0
"""Create, update and delete a stack with Heat's engine.

    stack.py DATABASE create NAME TEMPLATE [PARAMETER=VALUE...]
    stack.py DATABASE update ID TEMPLATE [PARAMETER=VALUE...]
    stack.py DATABASE delete ID

Run it with the Python that has Heat (requirements.txt in this directory); the
user is taken from OS_*. The engine runs in this process, without Heat's API,
message broker and locks; templates, resources and their clients of Octavia and
Neutron are Heat's own. The stack is stored in a SQLite file. create and update
print its id, status and outputs as JSON; the exit status is 1 if it is not
COMPLETE.
"""

import json
import os
import sys

from heat.common import context
from heat.common import messaging
from heat.common import template_format
from heat.db import migration
from heat.engine import environment
from heat.engine import resources
from heat.engine import stack as stacks
from heat.engine import template as templates
from keystoneauth1 import session
from keystoneauth1.identity import v3
from oslo_config import cfg


def configure(database):
    """Configure Heat, and create its schema in a file."""
    cfg.CONF([], project='heat', default_config_files=[])
    for name, value, group in (
            ('connection', f'sqlite:///{database}', 'database'),
            ('deferred_auth_method', 'password', None),
            ('auth_encryption_key', '0' * 32, None),
            ('convergence_engine', False, None),
            ('region_name_for_services', os.environ['OS_REGION_NAME'], None)):
        cfg.CONF.set_override(name, value, group)
    # Notifications are discarded.
    messaging.setup('fake://')
    migration.db_sync()
    resources.initialise()


def user():
    """Return the request context of the user in OS_*."""
    login = v3.Password(
        os.environ['OS_AUTH_URL'], username=os.environ['OS_USERNAME'],
        password=os.environ['OS_PASSWORD'],
        user_domain_name=os.environ['OS_USER_DOMAIN_NAME'],
        project_name=os.environ['OS_PROJECT_NAME'],
        project_domain_name=os.environ['OS_PROJECT_DOMAIN_NAME'])
    access = login.get_access(session.Session())
    return context.RequestContext(
        username=access.username, password=os.environ['OS_PASSWORD'],
        auth_url=os.environ['OS_AUTH_URL'], user_id=access.user_id,
        project_id=access.project_id, project_name=access.project_name,
        user_domain_id=access.user_domain_id,
        project_domain_id=access.project_domain_id,
        auth_token=access.auth_token, roles=list(access.role_names),
        region_name=os.environ['OS_REGION_NAME'], is_admin=False)


def template(path, parameters):
    """Return a template with its environment.

    :param parameters: texts of the form ``name=value``.
    """
    values = dict(parameter.split('=', 1) for parameter in parameters)
    with open(path) as file:
        return templates.Template(
            template_format.parse(file.read()),
            env=environment.Environment({'parameters': values}))


def create(request, name, path, *parameters):
    stack = stacks.Stack(request, name, template(path, parameters))
    stack.validate()
    stack.store()
    stack.create()
    return stack


def update(request, key, path, *parameters):
    stack = stacks.Stack.load(request, stack_id=key)
    # It has no id, because it only describes the update of the stack.
    new = stacks.Stack(request, stack.name, template(path, parameters),
                       **stack.get_kwargs_for_cloning())
    new.parameters.set_stack_id(stack.identifier())
    new.validate()
    stack.update(new)
    return stack


def delete(request, key):
    stack = stacks.Stack.load(request, stack_id=key)
    stack.delete()
    return stack


def main(arguments):
    database, action, *words = arguments
    configure(database)
    request = user()
    stack = {'create': create, 'update': update, 'delete': delete}[action](
        request, *words)
    # Heat's service does this when it releases its lock.
    stack.persist_state_and_release_lock('')
    print(json.dumps({
        'id': stack.id, 'status': stack.status, 'action': stack.action,
        'reason': stack.status_reason,
        'outputs': {} if action == 'delete' else outputs(request, stack.id)
    }))
    return stack.status != 'COMPLETE'


def outputs(request, key):
    """Return {name: value}, as Heat's API shows them."""
    stack = stacks.Stack.load(request, stack_id=key)
    # Heat's service does this before it formats a stack.
    stack._update_all_resource_data(False, True)
    return {name: output.get_value()
            for name, output in stack.outputs.items()}


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

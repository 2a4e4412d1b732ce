# SPDX-License-Identifier: Apache-2.0
"""Forms; each has a token that another site does not know."""

import flask_wtf
import wtforms
from wtforms import validators
from wtforms import widgets

from testbed import words

NO_KERNEL = ''


class _Checkboxes(wtforms.SelectMultipleField):
    widget = widgets.ListWidget(prefix_label=False)
    option_widget = widgets.CheckboxInput()


class Reserve(flask_wtf.FlaskForm):
    """What a lease is about."""

    machines = _Checkboxes('Machines')
    purpose = wtforms.StringField('Purpose', [
        validators.InputRequired('Say what for.'),
        validators.Length(max=words.PURPOSE_MAX)])
    hours = wtforms.IntegerField('Hours', default=8)
    kernel = wtforms.SelectField('Kernel', default=NO_KERNEL)

    def validate_machines(self, field):
        """Not a validator of the field: browsers would want each box."""
        if not field.data:
            raise validators.ValidationError('Choose one machine at least.')

    def offer(self, known):
        """Let the inventory's machines and kernels be chosen."""
        self.machines.choices = [
            (one.name, f'{one.name} ({one.role.replace("_", " ")})')
            for one in known.machines.values()]
        self.kernel.choices = [
            (NO_KERNEL, 'what is on its disk'),
            *((name, name) for name in known.kernels)]
        _bound(self.hours, known)


class Renew(flask_wtf.FlaskForm):
    """How much longer."""

    hours = wtforms.IntegerField('Hours from now', default=8)

    def offer(self, known):
        """Bound by what the inventory allows."""
        _bound(self.hours, known)


class Button(flask_wtf.FlaskForm):
    """A button, and the token."""


def _bound(field, known):
    field.validators = [
        validators.InputRequired('Say for how many hours.'),
        validators.NumberRange(1, known.longest_hours)]
    field.render_kw = {'min': '1', 'max': str(known.longest_hours)}
